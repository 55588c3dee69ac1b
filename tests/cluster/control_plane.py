"""etcd, API server, controller-manager and kube-scheduler, at this machine's end of the wire.

kube-scheduler places what is not Berth's: CoreDNS, and Berth's own services.
"""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.cluster.requirements import HOST_ADDRESS

from berth.testing.kube_server import Daemon, KubeServer, find_binary
from berth.testing.kube_server.daemon import Janitor, free_port
from berth.testing.kube_server.fetch import fetch

API_SERVER = (
    f"--advertise-address={HOST_ADDRESS}",
    "--allow-privileged=true",  # a kubelet runs what the API server accepts, and the other way round
    "--kubelet-preferred-address-types=InternalIP",
)


class ControlPlane:
    """Everything but the node; `server` is its API server."""

    def __init__(self) -> None:
        self.server = KubeServer(address=HOST_ADDRESS, arguments=API_SERVER, controlled=True)
        self._stack = ExitStack()

    def start(self) -> None:
        """Start all four and return once they are well."""
        self._stack.enter_context(self.server)
        home = self.server.home
        janitor = Janitor(home / "daemons")
        self._stack.callback(janitor.close)
        for name, more in (
            (
                "kube-controller-manager",
                [
                    f"--root-ca-file={self.server.ca_file}",
                    f"--service-account-private-key-file={home / 'accounts.key'}",
                    "--use-service-account-credentials",
                ],
            ),
            ("kube-scheduler", []),
        ):
            daemon = self._daemon(name, more, janitor)
            daemon.start()
            self._stack.callback(daemon.stop)

    def _daemon(self, name: str, more: list[str], janitor: Janitor) -> Daemon:
        port = free_port()
        command = [
            str(find_binary(name)),
            f"--kubeconfig={self.server.admin_kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.server.home / name}",
            *more,
        ]
        return Daemon(name, command, self.server.home / f"{name}.log", serves(f"https://127.0.0.1:{port}"), janitor)

    def close(self) -> None:
        """End them all."""
        self._stack.close()


def serves(url: str, path: str = "/healthz") -> Callable[[], bool]:
    """Whether a server with a certificate of its own making says that it is well."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE

    def look() -> bool:
        try:
            return fetch(f"{url}{path}", tls=tls) == b"ok"
        except OSError:
            return False

    return look


def version(name: str) -> str:
    """What a binary calls itself."""
    flag = "-version" if name == "coredns" else "--version"
    said = subprocess.run([find_binary(name), flag], capture_output=True, text=True, check=True).stdout
    words = [word for word in said.replace("CoreDNS-", "v").split() if word.lstrip("v")[:1].isdigit()]
    return words[0].removeprefix("v")


def log_of(home: Path, name: str) -> str:
    """The end of a component's log."""
    path = home / f"{name}.log"
    return path.read_text(errors="replace")[-4000:] if path.exists() else ""
