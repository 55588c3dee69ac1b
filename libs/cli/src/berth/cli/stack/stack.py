"""Start everything, watch it, restart what ends, stop everything: what `up`, `demo` and `replay` stand on.

The services are started exactly as anywhere else: same entry points, same settings; only the addresses differ. A
service that ends is started again, as Kubernetes would do. On every way out the processes are stopped and the folder
of this run is removed, unless it is to be kept.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import aiohttp

from berth.cli.stack.nats import Nats
from berth.cli.stack.process import Process, StartError
from berth.cli.stack.services import SERVICES, SIMULATED_API, ServiceSpec

READY_TIMEOUT_S = 60.0
RESTART_PAUSE_S = 0.5
POLL_S = 0.05


def _silent(text: str) -> None:
    pass


class Stack:
    """One running control plane.

    Args:
        kube: settings for services that talk to the API server (`BERTH_KUBE_URL=...`); empty starts the simulated one.
        replicas: how many processes of a service, by service name; 1 where it is not named, 0 leaves it out.
        environment: more settings for every service.
        sim_arguments: more arguments for the simulated API.
        keep: leave the folder with logs and store behind.
        say: told of progress, one short line a step.
    """

    def __init__(
        self,
        *,
        kube: Mapping[str, str] | None = None,
        replicas: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
        sim_arguments: list[str] | None = None,
        keep: bool = False,
        say: Callable[[str], None] = _silent,
    ) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="berth-"))
        (self.home / "logs").mkdir()
        self.nats = Nats(self.home / "nats")
        self.processes: dict[str, Process] = {"nats-server": self.nats.process}
        self.kube_url = ""
        self._kube = dict(kube or {})
        self._replicas = dict(replicas or {})
        self._environment = dict(environment or {})
        self._sim_arguments = list(sim_arguments or [])
        self._keep = keep
        self._say = say
        self._watchers: list[asyncio.Task[None]] = []
        self._stopping = False
        self.failed: asyncio.Future[str] | None = None

    async def __aenter__(self) -> Stack:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- start -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bus, API, services, in this order; returns once every service is ready. Raises StartError."""
        self.failed = asyncio.get_running_loop().create_future()
        await self.start_nats()
        self._say(f"nats-server on {self.nats.url}")
        if not self._kube:
            await self._start_simulated_api()
            self._say(f"simulated Kubernetes API on {self.kube_url}")
        for spec in SERVICES:
            for number in range(self._replicas.get(spec.name, 1)):
                await self._start_service(spec, number)
        await self._until_ready()
        services = sum(1 for name in self.processes if name not in ("nats-server", SIMULATED_API))
        self._say(f"{services} services ready")

    async def start_nats(self) -> None:
        """Start the bus, the first time or again on the same port and store."""
        self.nats.prepare()
        await self.nats.process.start()
        await self._until(self.nats.read_port, self.nats.process)
        self._watch(self.nats.process, self.start_nats)

    async def _start_simulated_api(self) -> None:
        port_file = self.home / "api.port"
        command = [
            sys.executable,
            "-m",
            "berth.simcluster",
            "serve",
            "--port-file",
            str(port_file),
            *self._sim_arguments,
        ]
        process = Process(SIMULATED_API, command, self.home / "logs" / f"{SIMULATED_API}.log")
        self.processes[process.name] = process
        await process.start()
        await self._until(port_file.exists, process)
        self.kube_url = f"http://127.0.0.1:{port_file.read_text().strip()}"
        self._kube = {"BERTH_KUBE_URL": self.kube_url}
        self._watch(process, None)

    async def _start_service(self, spec: ServiceSpec, number: int) -> None:
        name = spec.name if number == 0 else f"{spec.name}-{number}"
        port_file = self.home / f"{name}.port"
        environment = {
            **self._environment,
            "BERTH_NATS_URL": self.nats.url,
            "BERTH_INSTANCE": name,
            "BERTH_PORT_FILE": str(port_file),
            "BERTH_EXIT_WITH_PARENT": "1",
            "BERTH_LOG_FORMAT": "json",
            **spec.environment,
            **(self._kube if spec.needs_kube else {}),
        }
        command = [sys.executable, "-m", spec.module]
        process = Process(name, command, self.home / "logs" / f"{name}.log", environment)
        self.processes[name] = process
        await process.start()
        self._watch(process, process.start)

    async def _until_ready(self) -> None:
        """Poll `/readyz` of every service."""
        waiting = {name for name in self.processes if name not in ("nats-server", SIMULATED_API)}
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session:
            while waiting:
                for name in sorted(waiting):
                    if await self._is_ready(session, name):
                        waiting.discard(name)
                if self.failed is not None and self.failed.done():
                    raise StartError(self.failed.result())
                if asyncio.get_running_loop().time() > deadline:
                    raise StartError(self._not_ready(waiting))
                await asyncio.sleep(POLL_S)

    async def _is_ready(self, session: aiohttp.ClientSession, name: str) -> bool:
        address = self.address(name)
        if not address:
            return False
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with session.get(f"{address}/readyz") as response:
                return response.status == 200
        return False

    def address(self, name: str) -> str:
        """Base URL of a service's health and metrics; empty while it is not listening."""
        try:
            return f"http://127.0.0.1:{int((self.home / f'{name}.port').read_text())}"
        except (OSError, ValueError):
            return ""

    def _not_ready(self, waiting: set[str]) -> str:
        lines = [f"not ready after {READY_TIMEOUT_S:.0f} s: {', '.join(sorted(waiting))}"]
        lines += [f"  {name}:\n{self.processes[name].tail()}" for name in sorted(waiting)]
        return "\n".join(lines)

    async def _until(self, done: Callable[[], bool], process: Process) -> None:
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while not done():
            if not process.pid or asyncio.get_running_loop().time() > deadline:
                raise StartError(f"{process.name} did not come up:\n{process.tail()}")
            await asyncio.sleep(POLL_S)

    # --- watch and stop ----------------------------------------------------------------------------------------------

    def _watch(self, process: Process, again: Callable[[], object] | None) -> None:
        async def watch() -> None:
            code = await process.wait()
            if self._stopping:
                return
            if again is None:
                if self.failed is not None and not self.failed.done():
                    self.failed.set_result(f"{process.name} ended with exit code {code}:\n{process.tail()}")
                return
            process.restarts += 1
            self._say(f"{process.name} ended (exit code {code}); starting it again")
            await asyncio.sleep(RESTART_PAUSE_S)
            if self._stopping:
                return
            if process is self.nats.process:
                await self.start_nats()
            else:
                await process.start()
                self._watch(process, again)

        self._watchers.append(asyncio.create_task(watch(), name=f"watch {process.name}"))

    async def stop(self) -> None:
        """Stop everything, the bus last, and clean up."""
        self._stopping = True
        for task in self._watchers:
            task.cancel()
        services = [process for name, process in self.processes.items() if name not in ("nats-server", SIMULATED_API)]
        await asyncio.gather(*(process.stop() for process in services))
        rest = [self.processes[name] for name in (SIMULATED_API, "nats-server") if name in self.processes]
        await asyncio.gather(*(process.stop() for process in rest))
        await asyncio.gather(*self._watchers, return_exceptions=True)
        if not self._keep:
            await asyncio.to_thread(shutil.rmtree, self.home, ignore_errors=True)
