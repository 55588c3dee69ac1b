"""A real kubelet beside the test's containerd, without an API server: its pods are manifests in a folder.

It lives in containerd's namespaces and ends with them. Its control groups are below the runtime's, and go with those.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.e2e.container_runtime import GROUPS, ContainerRuntime

from berth.testing.kube_server import Daemon, KubeMissingError, find_binary
from berth.testing.kube_server.daemon import Janitor, free_port

NODE = "real-node"
_OVER = """
mkdir -p /run/over/upper /run/over/work
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/over/upper,workdir=/run/over/work overlay /var/lib
"""


def lacking() -> list[str]:
    """What this machine lacks for it."""
    try:
        find_binary("kubelet")
    except KubeMissingError as error:
        return [str(error)]
    return []


class Kubelet:
    """One kubelet; `settings` are laid over its configuration."""

    def __init__(self, runtime: ContainerRuntime, **settings: Any) -> None:
        self._runtime = runtime
        self.home = runtime.home
        self.root = self.home / "kubelet"
        self.port = free_port()
        self.podresources = self.root / "pod-resources/kubelet.sock"
        self.certificate = self.root / "pki/kubelet.crt"
        self._pods = self.home / "manifests"
        self._janitor = Janitor(self.home / "nothing")
        for folder in (self.root, self._pods, self.home / "log"):
            folder.mkdir()
        (self.home / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        (self.home / "kubelet.json").write_text(json.dumps(self._configuration() | settings))
        for controller in GROUPS.iterdir():
            if (controller / "tasks").exists():  # version 1: each hierarchy for itself
                (controller / runtime.group).mkdir(exist_ok=True)
        if (GROUPS / "cgroup.controllers").exists():
            (GROUPS / runtime.group).mkdir(exist_ok=True)
        for name in ("cpuset.mems", "cpuset.cpus"):
            with contextlib.suppress(OSError):
                whole = (GROUPS / "cpuset" / name).read_text()
                (GROUPS / "cpuset" / runtime.group / name).write_text(whole)
        # What has its place below /var/lib whatever the settings say stays in here.
        subprocess.run([*runtime.inside(), "bash", "-c", _OVER], check=True, timeout=60)
        self._daemon: Daemon | None = None

    def start(self) -> None:
        """Serve; a socket that a killed one has left says nothing."""
        self.podresources.unlink(missing_ok=True)
        command = [
            *self._runtime.inside(),
            str(find_binary("kubelet")),
            f"--config={self.home / 'kubelet.json'}",
            f"--root-dir={self.root}",
            f"--cert-dir={self.certificate.parent}",
            f"--hostname-override={NODE}",
        ]
        self._daemon = Daemon("kubelet", command, self.home / "kubelet.log", self._serves, self._janitor)
        self._daemon.start()

    def kill(self) -> None:
        """kill -9. Its pods run on."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"/kubelet") and f"--root-dir={self.root}".encode() in words:
                    os.kill(int(folder.name), signal.SIGKILL)
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon = None

    def close(self) -> None:
        """Away with it; its pods go with the runtime."""
        self.kill()
        self._janitor.close()

    def log(self) -> str:
        """The end of its log."""
        with contextlib.suppress(OSError):
            return (self.home / "kubelet.log").read_text(errors="replace")[-6_000:]
        return ""

    def run(self, name: str, containers: list[dict[str, Any]], **metadata: Any) -> None:
        """A pod on the node's network, from now on."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": "work", "name": name, **metadata},
            "spec": {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": containers},
        }
        new = self._pods / f".{name}.new"
        new.write_text(json.dumps(pod))
        new.replace(self._pods / f"{name}.json")

    def end(self, name: str) -> None:
        """The pod goes."""
        (self._pods / f"{name}.json").unlink()

    def _serves(self) -> bool:
        time.sleep(0.1)
        return self.podresources.is_socket() and self.certificate.is_file()

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": self.port,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "enableServer": True,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._runtime.group}",
            "failCgroupV1": False,
            "makeIPTablesUtilChains": False,  # it is on the machine's network
            "failSwapOn": False,
            "containerRuntimeEndpoint": f"unix://{self._runtime.socket}",
            "staticPodPath": str(self._pods),
            "fileCheckFrequency": "500ms",
            "syncFrequency": "1s",
            "cpuManagerReconcilePeriod": "500ms",
            "resolvConf": str(self.home / "resolv.conf"),
            "podLogsDir": str(self.home / "log"),
            "volumePluginDir": str(self.home / "volume-plugins"),
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
        }
