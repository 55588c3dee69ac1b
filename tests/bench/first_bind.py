"""How long it takes from `berth up --install-crds` on a fresh, real API server to the first bind, and where it goes.

    python tests/bench/first_bind.py [--rounds 3]

A node and a pod are there before. Prints, for each moment on the way, when it came in the middle one of the rounds, in
seconds after the command was started, and what all processes of Berth have used of the CPU by the first bind. The
programs come from `$KUBEBUILDER_ASSETS`, or as `make e2e-assets` has built them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from berth.testing.kube_server import KubeServer
from berth.testing.kube_server.fetch import fetch

POLL_S = 0.02
TIMEOUT_S = 120.0
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "first", "namespace": "default"},
    "spec": {"schedulerName": "berth-scheduler", "containers": [{"name": "c", "image": "x"}]},
}
LINES = {
    "installed": "custom resources made",
    "created the namespace": "namespace made",
    "nats-server on": "bus listens",
    "services ready": "every service ready",
}
"""What `berth up` prints, and what it means."""
EVENTS = {
    ("cluster-watcher", "started"): "cluster-watcher has imported everything",
    ("cluster-writer", "started"): "cluster-writer has imported everything",
    ("placement-solver", "started"): "placement-solver has imported everything",
    ("cluster-watcher", "synced pods"): "pods in STATE",
    ("cluster-watcher", "synced nodes"): "nodes in STATE",
    ("cluster-watcher", "synced reservations"): "Reservations in STATE",
    ("cluster-watcher", "lease won"): "cluster-watcher is active",
    ("cluster-writer", "epoch raised"): "epoch of the ledger",
}
"""Lines of the services' logs, and what they mean."""


class Round:
    """One server, one `berth up`."""

    def __init__(self) -> None:
        self.moments: dict[str, float] = {}
        self.cpu_s = 0.0

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="berth-first-bind-") as folder, KubeServer() as server:
            server.kubectl("create", "-f", "-", stdin=json.dumps(NODE))
            server.kubectl("replace", "--subresource=status", "-f", "-", stdin=json.dumps(NODE))
            server.kubectl("create", "-f", "-", stdin=json.dumps(POD))
            environment = {key: value for key, value in os.environ.items() if not key.startswith("BERTH_")}
            environment |= {"TMPDIR": folder, "XDG_RUNTIME_DIR": folder, "NO_COLOR": "1"}
            command = [sys.executable, "-m", "berth.cli", "up", "--kubeconfig", str(server.admin_kubeconfig)]
            began, began_at = time.monotonic(), time.time()
            process = subprocess.Popen(
                [*command, "--install-crds", "--keep"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
            )
            reader = threading.Thread(target=self._read, args=(process, began), daemon=True)
            reader.start()
            try:
                self._await_bind(server, process, began)
                while "every service ready" not in self.moments and time.monotonic() - began < TIMEOUT_S:
                    time.sleep(POLL_S)
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=TIMEOUT_S)
            self._read_logs(Path(folder), began_at)

    def _read(self, process: subprocess.Popen[str], began: float) -> None:
        for line in process.stdout or ():
            for words, name in LINES.items():
                if words in line:
                    self.moments.setdefault(name, time.monotonic() - began)

    def _await_bind(self, server: KubeServer, process: subprocess.Popen[str], began: float) -> None:
        url = f"{server.url}/api/v1/namespaces/default/pods/first"
        while True:
            pod = json.loads(fetch(url, token=server.admin_token, tls=server.tls))
            if pod["spec"].get("nodeName"):
                self.moments["FIRST BIND"] = time.monotonic() - began
                self.cpu_s = sum(map(_cpu_s, _tree(process.pid)))
                return
            if process.poll() is not None or time.monotonic() - began > TIMEOUT_S:
                raise SystemExit("no bind: berth up has ended, or took too long")
            time.sleep(POLL_S)

    def _read_logs(self, folder: Path, began_at: float) -> None:
        for path in sorted(folder.glob("berth-*/logs/*.log")):
            for line in path.read_text(errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                self._note(path.stem, entry, began_at)

    def _note(self, service: str, entry: dict[str, Any], began_at: float) -> None:
        event = str(entry.get("message", ""))
        if event == "synced":
            event = f"synced {entry.get('kind')}"
        for (of, words), name in EVENTS.items():
            if service == of and event.startswith(words):
                self.moments.setdefault(name, _seconds(entry.get("time")) - began_at)


def _seconds(timestamp: Any) -> float:
    return datetime.fromisoformat(str(timestamp)).timestamp()


def _tree(root: int) -> list[int]:
    """A process and all that come from it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = [Round() for _ in range(parser.parse_args().rounds)]
    for each in rounds:
        each.run()
    names = {name for each in rounds for name in each.moments}
    middle = {name: statistics.median(each.moments.get(name, float("nan")) for each in rounds) for name in names}
    for name, at in sorted(middle.items(), key=lambda each: each[1]):
        print(f"{at:7.2f} s  {name}")
    print(f"{statistics.median(each.cpu_s for each in rounds):7.2f} s  of CPU by the first bind")


if __name__ == "__main__":
    main()
