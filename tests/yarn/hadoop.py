"""A real YARN cluster: a pair of ResourceManagers, of which a test makes one the active one, and a NodeManager.

Nobody elects (that takes ZooKeeper): the administrator's command does. What the pair knows of applications is in a
folder that both use. Everything is on this machine, at ports of its own, in a temporary folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from xml.sax.saxutils import escape

import aiohttp
import msgspec

ROOT: Final = Path(__file__).parents[2]
USER: Final = "yarn"
"""Who is the administrator of this cluster."""
HEAP_MB: Final = 256
LEAST_MB: Final = 64
"""A NodeManager that registers with less than one container may have is turned away."""
START_S: Final = 90.0
_SERVER: Final = "org.apache.hadoop.yarn.server"
RESOURCE_MANAGER: Final = f"{_SERVER}.resourcemanager.ResourceManager"
NODE_MANAGER: Final = f"{_SERVER}.nodemanager.NodeManager"
ADMIN: Final = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"
PAIR: Final = ("rm1", "rm2")
Json = dict[str, Any]


class MissingError(RuntimeError):
    """Something that it takes is not on this machine; says what."""


def jars() -> Path:
    """The folder of YARN's jars. Raises MissingError."""
    asked = subprocess.run([ROOT / "tools/yarn/assets.sh", "--print"], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise MissingError(asked.stderr.strip() or "tools/yarn/assets.sh has failed")
    return Path(asked.stdout.splitlines()[-1])


class Hadoop:
    """The cluster. `close` ends every process of it, its containers too."""

    def __init__(self) -> None:
        self._jars = jars()
        self.home = Path(tempfile.mkdtemp(prefix="berth-yarn-"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = iter(_free_ports(16))
        self._addresses: dict[str, str] = {}
        self._configure()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def url(self, name: str) -> str:
        """Where a ResourceManager's REST is."""
        return f"http://{self._addresses[name]}"

    def start(self, *names: str) -> None:
        """Start ResourceManagers by their names, or the NodeManager (`nm`)."""
        for name in names:
            of_one = [f"-Dyarn.resourcemanager.ha.id={name}"] if name in PAIR else []
            main = [RESOURCE_MANAGER, "-D", f"yarn.resourcemanager.ha.id={name}"] if of_one else [NODE_MANAGER]
            with (self.home / f"{name}.out").open("ab") as out:
                self._processes[name] = subprocess.Popen(
                    self._java(*of_one, *main), stdout=out, stderr=out, env=self._environ(), start_new_session=True
                )

    def kill(self, name: str) -> None:
        """kill -9 of one process; containers of a NodeManager go on."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        """End what runs, and take the folder away."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        shutil.rmtree(self.home, ignore_errors=True)

    def log(self, name: str) -> str:
        """The end of what a process has said."""
        return (self.home / f"{name}.out").read_text(errors="replace")[-3000:]

    def activate(self, name: str) -> None:
        """Make a ResourceManager the active one, whatever the other one is; the NodeManager follows."""
        deadline = time.monotonic() + START_S
        while True:
            command = self._java(ADMIN, "-transitionToActive", "--forceactive", name)
            ran = subprocess.run(
                command, capture_output=True, text=True, env=self._environ(), timeout=START_S, check=False
            )
            if not ran.returncode:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is not to be made active: {ran.stderr[-500:]}\n{self.log(name)}")
            time.sleep(0.5)

    def _java(self, *arguments: str) -> list[str]:
        flags = [f"-Xmx{HEAP_MB}m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"]
        # The pages of both are made by reflection.
        opened = "--add-opens=java.base/java.lang=ALL-UNNAMED"
        return ["java", *flags, opened, "-cp", f"{self.home}/conf:{self._jars}/*", *arguments]

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "HADOOP_USER_NAME": USER, "HADOOP_LOG_DIR": str(self.home)}

    def _address(self) -> str:
        return f"127.0.0.1:{next(self._ports)}"

    def _configure(self) -> None:
        for name in ("conf", "local", "logs", "store"):
            (self.home / name).mkdir()
        site = {
            "yarn.acl.enable": "true",
            "yarn.admin.acl": USER,
            "yarn.resourcemanager.cluster-id": "test",
            "yarn.resourcemanager.ha.enabled": "true",
            "yarn.resourcemanager.ha.rm-ids": ",".join(PAIR),
            "yarn.resourcemanager.ha.automatic-failover.enabled": "false",
            "yarn.resourcemanager.recovery.enabled": "true",
            "yarn.resourcemanager.store.class": f"{_SERVER}.resourcemanager.recovery.FileSystemRMStateStore",
            "yarn.resourcemanager.fs.state-store.uri": (self.home / "store").as_uri(),
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
            "yarn.resourcemanager.connect.retry-interval.ms": "300",
            "yarn.resourcemanager.connect.max-wait.ms": "600000",
            "yarn.client.failover-sleep-base-ms": "200",
            "yarn.client.failover-sleep-max-ms": "500",
            # The other schedulers of Hadoop do not end what is over a grant that became smaller.
            "yarn.resourcemanager.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.capacity.CapacityScheduler",
            "yarn.scheduler.minimum-allocation-mb": str(LEAST_MB),
            "yarn.scheduler.maximum-allocation-vcores": "64",
            "yarn.scheduler.maximum-allocation-mb": "1048576",
            "yarn.nodemanager.resource.memory-mb": str(LEAST_MB),
            "yarn.nodemanager.resource.cpu-vcores": "1",
            "yarn.nodemanager.local-dirs": str(self.home / "local"),
            "yarn.nodemanager.log-dirs": str(self.home / "logs"),
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.address": self._address(),
            "yarn.nodemanager.localizer.address": self._address(),
            "yarn.nodemanager.webapp.address": self._address(),
            "yarn.nodemanager.collector-service.address": self._address(),
        }
        for name in PAIR:
            for part in ("address", "scheduler.address", "resource-tracker.address", "admin.address"):
                site[f"yarn.resourcemanager.{part}.{name}"] = self._address()
            self._addresses[name] = site[f"yarn.resourcemanager.webapp.address.{name}"] = self._address()
        capacity = {
            "root.queues": "default",
            "root.default.capacity": "100",
            "maximum-am-resource-percent": "1",
            "resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        }
        core = {"hadoop.tmp.dir": str(self.home / "tmp"), "hadoop.security.authentication": "simple"}
        self._write("yarn-site", site)
        self._write("core-site", core)
        self._write(
            "capacity-scheduler", {f"yarn.scheduler.capacity.{name}": value for name, value in capacity.items()}
        )
        (self.home / "conf/log4j.properties").write_text(
            "log4j.rootLogger=INFO,out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n\n"
        )

    def _write(self, name: str, values: dict[str, str]) -> None:
        rows = (
            f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in values.items()
        )
        (self.home / f"conf/{name}.xml").write_text(f"<configuration>{''.join(rows)}</configuration>\n")


class Rest:
    """What a person asks a ResourceManager for, beside what yarn-operator does."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url}/ws/v1/cluster"

    async def nodes(self) -> list[Json]:
        """Its NodeManagers; none while it is not the active one, or away."""
        try:
            async with self._session.get(
                f"{self._url}/nodes", headers={"Accept": "application/json"}, allow_redirects=False
            ) as response:
                found = msgspec.json.decode(await response.read()) if response.status == 200 else {}
        except aiohttp.ClientError:
            return []
        return (found.get("nodes") or {}).get("node") or []

    async def submit(self, command: str, *, memory_mb: int, vcores: int) -> str:
        """An application whose one container runs a command; its id."""
        app = (await self._post("apps/new-application", {}))["application-id"]
        await self._post(
            "apps",
            {
                "application-id": app,
                "application-name": "test",
                "application-type": "YARN",
                "max-app-attempts": 1,
                "am-container-spec": {"commands": {"command": command}},
                "resource": {"memory": memory_mb, "vCores": vcores},
            },
        )
        return str(app)

    async def state(self, app: str) -> str:
        """The state of an application."""
        async with self._session.get(
            f"{self._url}/apps/{app}/state", headers={"Accept": "application/json"}
        ) as response:
            return str(msgspec.json.decode(await response.read())["state"])

    async def _post(self, path: str, body: Json) -> Json:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        async with self._session.post(
            f"{self._url}/{path}", params={"user.name": USER}, headers=headers, data=msgspec.json.encode(body)
        ) as response:
            answer = await response.read()
            assert response.status < 300, f"{path}: {response.status} {answer[:300]!r}"
            return msgspec.json.decode(answer) if answer else {}


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has; all are held until all are known, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
