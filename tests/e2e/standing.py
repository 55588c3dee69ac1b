"""API servers that were there before Berth and outlive it: what an installation meets, again and again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.clusters import HOME, SIMULATED, Cluster, Simulated, cluster_of

DEADLINE_S = 60.0


class Standing(Simulated):
    """The simulated API as a process of its own; its kubelets are quick."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def stack_settings(self) -> dict[str, Any]:
        return {"kube": {"BERTH_KUBE_URL": self.url}}

    def adopt(self, stack: Any) -> None:
        """It has been there before."""


@contextmanager
def simulated_api(folder: Path, *arguments: str) -> Iterator[str]:
    """Its URL."""
    port_file = folder / "port"
    command = [sys.executable, "-m", "berth.simcluster", "serve", "--port-file", str(port_file), *arguments]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not (port_file.exists() and port_file.read_text().strip()):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port_file.read_text().strip()}"
        finally:
            process.terminate()


@contextmanager
def standing(kind: str, folder: Path) -> Iterator[Cluster]:
    """A server of this kind with Berth's custom resources, rights and home, and nothing of Berth running."""
    if kind != SIMULATED:
        with cluster_of(kind) as cluster:
            yield cluster
        return
    home = folder / "home.json"
    home.write_text(f'{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{HOME}"}}}}\n')
    quick = ("--start-delay-seconds", "0.1", "--stop-delay-seconds", "0.1")
    with simulated_api(folder, "--manifests", str(home), *quick) as url:
        yield Standing(url)
