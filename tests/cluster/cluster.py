"""The node and its control plane in the hands of the scenario: ask, create, wait; and note what happened when."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from tests.cluster import images
from tests.cluster.control_plane import ControlPlane
from tests.cluster.node import NAME, Node
from tests.cluster.report import Report
from tests.cluster.space import Space

Json = dict[str, Any]
T = TypeVar("T")

ROOT = Path(__file__).parents[2]
MANIFESTS = Path(__file__).parent / "manifests"
WAIT_S = 300.0
POLL_S = 0.3


class Cluster:
    """A whole cluster of one node."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.space = Space()
        self.plane = ControlPlane()
        self.server = self.plane.server
        self.node: Node
        self._stack = ExitStack()

    def start(self) -> None:
        """Start everything, up to CoreDNS; a failed start leaves nothing behind."""
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self._stack.callback(self.space.close)
        self.space.start()
        self._stack.callback(self.plane.close)
        self.plane.start()
        self.report.step("etcd, kube-apiserver, kube-controller-manager and kube-scheduler serve")
        self.node = Node(self.space, self.server)
        self._stack.callback(self.node.close)
        self.node.start_runtime()
        images.load_helpers(self.node)
        self.report.step("containerd serves")
        self.node.start_kubelet()
        self.until(self._node_is_ready, "the node to be ready")
        self.report.step("kubelet and kube-proxy serve, the node is ready")
        self.apply("coredns.yaml")
        self.rolled_out("deployment/coredns", "kube-system")
        self.report.step("CoreDNS runs, placed by kube-scheduler")

    def close(self) -> None:
        """Away with it: containers, node and its namespaces, then the control plane."""
        self._stack.close()

    def _node_is_ready(self) -> bool:
        conditions = self.get(f"/api/v1/nodes/{NAME}").get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    # --- the API server ----------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Json | None = None, accept: str = "application/json") -> Json:
        """The decoded answer. Raises RuntimeError with what the server says when it refuses."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self.server.admin_token}", "Content-Type": kind, "Accept": accept}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.server.tls) as response:
                found: Json = json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}") from None
        return found

    def get(self, path: str) -> Json:
        """An object, or an empty one when it is not there."""
        try:
            return self.call("GET", path)
        except RuntimeError as error:
            if ": 404 " in str(error):
                return {}
            raise

    def items(self, path: str) -> list[Json]:
        """The items of a list."""
        found: list[Json] = self.call("GET", path)["items"]
        return found

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """As its user would."""
        return self.server.kubectl(*arguments, stdin=stdin)

    def apply(self, name: str, **words: str) -> None:
        """Apply a file of `manifests/`, in which each of the words stands for its value."""
        text = (MANIFESTS / name).read_text()
        for word, value in words.items():
            text = text.replace(word, value)
        self.kubectl("apply", "-f", "-", stdin=text)

    def rolled_out(self, workload: str, namespace: str) -> None:
        """Return once every pod of a workload is ready. Fails with what its pods say."""
        try:
            self.kubectl("rollout", "status", workload, "-n", namespace, f"--timeout={WAIT_S:g}s")
        except RuntimeError as error:
            raise AssertionError(f"{error}\n{self.kubectl('get', 'pods,events', '-n', namespace)}") from None

    # --- waiting -----------------------------------------------------------------------------------------------------

    def until(self, look: Callable[[], T | None], what: str, timeout_s: float = WAIT_S) -> T:
        """What `look` finds, once it finds something. Fails, saying what was waited for, when it never does."""
        deadline = time.monotonic() + timeout_s
        while not (found := look()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout_s:g} s in vain for {what}")
            time.sleep(POLL_S)
        return found

    def pods(self, namespace: str, labels: str = "") -> list[Json]:
        """Pods of a namespace, of all of it or by a selector."""
        return self.items(f"/api/v1/namespaces/{namespace}/pods?labelSelector={labels}")

    def until_running(self, namespace: str, labels: str, count: int) -> list[Json]:
        """These pods, once all of them run or have run."""

        def look() -> list[Json]:
            found = self.pods(namespace, labels)
            well = [pod for pod in found if pod["status"].get("phase") in ("Running", "Succeeded")]
            return well if len(well) == count == len(found) else []

        return self.until(look, f"{count} running pods of {labels} in {namespace}")

    # --- Berth's own command, from outside of the cluster ------------------------------------------------------------

    def berth(self, *arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """The `berth` command on this machine."""
        command = [sys.executable, "-m", "berth.cli", *arguments]
        env = {"PATH": "/usr/bin:/bin", "NO_COLOR": "1", "HOME": str(self.space.home), **environment}
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)
