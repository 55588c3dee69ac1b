"""Start everything, watch it, restart what ends, stop everything: what `up`, `demo` and `replay` stand on.

The services are started exactly as anywhere else: same entry points, same settings; only the addresses differ. A
service that ends is started again, as Kubernetes would do, with growing pauses when it keeps ending. On every way out
the processes are stopped and the folder of this run is removed, unless it is to be kept.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from berth.cli.errors import EXIT_BAD, EXIT_DISK_FULL, EXIT_USAGE, CliError
from berth.cli.stack.disk_space import lack_of, unwritable
from berth.cli.stack.nats import Nats
from berth.cli.stack.process import Process, StartError
from berth.cli.stack.process_monitor import ProcessMonitor
from berth.cli.stack.services import SERVICES, SIMULATED_API, ServiceSpec
from berth.contracts import names

T = TypeVar("T")

NATS_SERVER = "nats-server"
READY_TIMEOUT_S = 60.0
BEGIN_TIMEOUT_S = 5.0
RESTART_PAUSE_S = 0.5
RESTART_PAUSE_MAX_S = 5.0
STEADY_AFTER_S = 20.0
"""Who ran this long before it ended is started again after the shortest pause."""
EXIT_SETTINGS = 2
"""A service's exit code for settings that it cannot use: starting it again would not help."""
HOME_OBJECTS = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "berth-system"}},
    *(
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": names.WEBHOOKS}}
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
)
"""Where cluster-writer keeps its Lease, and what it writes entries of webhooks into; on a real cluster the manifests
create them."""
STARTS_MAX = 4
"""Who has ended this often before everything was ready will not come up."""
POLL_S = 0.05


def _silent(text: str) -> None:
    pass


async def _at_once() -> None:
    pass


def _straight(service: str, settings: dict[str, str]) -> dict[str, str]:
    return settings


class Stack:
    """One running control plane; an asynchronous context.

    Args:
        kube: settings for services that talk to the API server (`BERTH_KUBE_URL=...`).
        kubeconfigs: a kubeconfig of its own per service, by service name; it goes before `kube`. Without either the
            simulated API is started.
        nats: settings of a bus that runs already (`BERTH_NATS_URL=...`); empty starts one of our own.
        replicas: how many processes of a service, by service name; 1 where it is not named (none of one that is
            started on request), 0 leaves it out.
        environment: more settings for every service.
        sim_arguments: more arguments for the simulated API.
        until_kube_serves: returns once the API server serves all kinds; the first services are started meanwhile.
        keep: leave the folder with logs and store behind.
        reroute: given a service's name and its settings, those that it is started with; for something between it and
            its servers.
        say: gets progress and restarts, one short line each.
    """

    def __init__(
        self,
        *,
        kube: Mapping[str, str] | None = None,
        kubeconfigs: Mapping[str, Path] | None = None,
        nats: Mapping[str, str] | None = None,
        replicas: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
        sim_arguments: list[str] | None = None,
        until_kube_serves: Callable[[], Awaitable[None]] = _at_once,
        keep: bool = False,
        reroute: Callable[[str, dict[str, str]], dict[str, str]] = _straight,
        say: Callable[[str], None] = _silent,
    ) -> None:
        self.home = Path()
        self.processes: dict[str, Process] = {}
        self.kube_url = ""
        self.failed: asyncio.Future[str]
        self.failed_code = EXIT_BAD
        self._nats: Nats | None = None
        self._bus = dict(nats or {})
        self._watchman = ProcessMonitor()
        self._kube = dict(kube or {})
        self._kubeconfigs = dict(kubeconfigs or {})
        self._replicas = dict(replicas or {})
        self._environment = dict(environment or {})
        self._sim_arguments = list(sim_arguments or [])
        self._until_kube_serves = until_kube_serves
        self._keep = keep
        self._reroute = reroute
        self._say = say
        self._watchers: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._webhook: dict[str, str] = {}

    async def __aenter__(self) -> Stack:
        try:
            await self._start()
        except OSError as error:
            await self.stop()
            raise unwritable(error) from error
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def nats_url(self) -> str:
        """Where clients of the bus connect; the same over restarts of the server."""
        return self._nats.url if self._nats else self._bus["BERTH_NATS_URL"]

    def services(self) -> list[Process]:
        """The processes of Berth itself."""
        return [process for name, process in self.processes.items() if name not in (NATS_SERVER, SIMULATED_API)]

    async def scale(self, service: str, replicas: int) -> None:
        """Run so many processes of a service from now on; returns when those that are added are ready. 0 is none.

        Raises StartError when one does not come up; KeyError when there is no such service.
        """
        spec = next((each for each in SERVICES if each.name == service), None)
        if spec is None:
            raise KeyError(service)
        running = self._count(spec)
        self._replicas[service] = replicas
        surplus = [self.processes.pop(_instance(service, number)) for number in range(replicas, running)]
        await asyncio.gather(*(process.stop() for process in surplus))
        for process in surplus:
            (self.home / f"{process.name}.port").unlink(missing_ok=True)
        for number in range(running, replicas):
            await self._start_service(spec, number)
        await self._until_ready()

    async def unless_broken(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns. Raises CliError as soon as a process is beyond repair."""
        task = asyncio.create_task(work)
        try:
            either: list[asyncio.Future[Any]] = [task, self.failed]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise CliError(self.failed.result(), self.failed_code)
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # --- start -------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        """Bus, API, services, in this order; returns once every service is ready. Raises StartError."""
        self.failed = asyncio.get_running_loop().create_future()
        self._webhook = _webhook_address()
        self.home = Path(tempfile.mkdtemp(prefix="berth-"))
        await self._watchman.start(self.home, keep=self._keep)
        (self.home / "logs").mkdir()
        if not self._bus:
            self._nats = Nats(self.home / NATS_SERVER, self.home / "logs", self._watchman)
            self.processes[NATS_SERVER] = self._nats.process
            await self._start_nats(self._nats)
            self._say(f"nats-server on {self.nats_url}")
        if not self._kube and not self._kubeconfigs:
            await self._start_simulated_api()
            self._say(f"simulated Kubernetes API on {self.kube_url}")
        # Most of the start is spent on imports. On a small machine all at once would make the first pod wait for all.
        await self._start_services(spec for spec in SERVICES if spec.places_pods)
        await self._until_begun()
        await self._until_kube_serves()
        await self._start_services(spec for spec in SERVICES if not spec.places_pods)
        await self._until_ready()
        self._say(f"{len(self.services())} services ready")

    async def _start_services(self, specs: Iterable[ServiceSpec]) -> None:
        for spec in specs:
            for number in range(self._count(spec)):
                await self._start_service(spec, number)

    def _count(self, spec: ServiceSpec) -> int:
        return self._replicas.get(spec.name, 0 if spec.on_request else 1)

    async def _until_begun(self) -> None:
        """The services so far listen, or it takes them too long: then others need not wait for them."""
        deadline = asyncio.get_running_loop().time() + BEGIN_TIMEOUT_S
        while not all(self.address(process.name) for process in self.services()):
            if self.failed.done() or asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(POLL_S)

    async def _start_nats(self, nats: Nats) -> None:
        """Start the bus, the first time or again on the same port and store."""
        nats.prepare()
        await nats.process.start()
        await self._until(nats.read_port, nats.process)
        self._watch(nats.process, lambda: self._start_nats(nats))

    async def _start_simulated_api(self) -> None:
        port_file = self.home / "api.port"
        home = self.home / "home.json"
        home.write_text("".join(f"{json.dumps(each)}\n" for each in HOME_OBJECTS))
        serve = [
            sys.executable,
            "-m",
            "berth.simcluster",
            "serve",
            "--port-file",
            str(port_file),
            "--manifests",
            str(home),
        ]
        log = self.home / "logs" / f"{SIMULATED_API}.log"
        process = Process(SIMULATED_API, [*serve, *self._sim_arguments], log, monitor=self._watchman)
        self.processes[process.name] = process
        await process.start()
        await self._until(lambda: bool(_port(port_file)), process)
        self.kube_url = f"http://127.0.0.1:{_port(port_file)}"
        self._kube = {"BERTH_KUBE_URL": self.kube_url}
        self._watch(process, None)

    async def _start_service(self, spec: ServiceSpec, number: int) -> None:
        name = _instance(spec.name, number)
        environment = {
            **spec.environment,
            **self._webhook,
            **self._environment,
            **(self._bus or {"BERTH_NATS_URL": self.nats_url}),
            # On a bus that others share, their instances may be called after the service too.
            "BERTH_INSTANCE": f"{name}-{socket.gethostname()}-{os.getpid()}" if self._bus else name,
            "BERTH_PORT_FILE": str(self.home / f"{name}.port"),
            "BERTH_EXIT_WITH_PARENT": "1",
            "BERTH_LOG_FORMAT": "json",
            **(self._way_to_kube(spec.name) if spec.needs_kube else {}),
        }
        environment = self._reroute(spec.name, environment)
        command = [sys.executable, "-m", spec.module]
        log = self.home / "logs" / f"{name}.log"
        process = Process(name, command, log, environment, monitor=self._watchman, niceness=spec.niceness)
        self.processes[name] = process

        async def start() -> None:
            await process.start()
            self._watch(process, start)

        await start()

    def _way_to_kube(self, service: str) -> dict[str, str]:
        if service in self._kubeconfigs:
            return {"BERTH_KUBECONFIG": str(self._kubeconfigs[service])}
        return self._kube

    async def _until_ready(self) -> None:
        """Poll `/readyz` of every service."""
        waiting = {process.name for process in self.services()}
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session:
            while waiting:
                for name in sorted(waiting):
                    if await self._is_ready(session, name):
                        waiting.discard(name)
                if self.failed.done():
                    raise StartError(self.failed.result(), self._start_code())
                looping = {name for name in waiting if self.processes[name].restarts >= STARTS_MAX}
                if looping or asyncio.get_running_loop().time() > deadline:
                    raise StartError(self._not_ready(looping or waiting))
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
        port = _port(self.home / f"{name}.port")
        return f"http://127.0.0.1:{port}" if port else ""

    def _not_ready(self, waiting: set[str]) -> str:
        lines = [f"not ready after {READY_TIMEOUT_S:.0f} s, or ends again and again: {', '.join(sorted(waiting))}"]
        lines += [f"  {name}:\n{self.processes[name].tail()}" for name in sorted(waiting)]
        return "\n".join(lines)

    async def _until(self, done: Callable[[], bool], process: Process) -> None:
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while not done():
            if not process.pid or asyncio.get_running_loop().time() > deadline:
                if lack := lack_of(process, 0):
                    raise StartError(lack, EXIT_DISK_FULL)
                raise StartError(f"{process.name} did not come up:\n{process.tail()}")
            await asyncio.sleep(POLL_S)

    # --- watch and stop ----------------------------------------------------------------------------------------------

    def _watch(self, process: Process, again: Callable[[], Awaitable[None]] | None) -> None:
        """Start it `again` when it ends; without a way to do so, its end is the end of the stack."""
        task = asyncio.create_task(self._mind(process, again), name=f"watch {process.name}")
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)

    async def _mind(self, process: Process, again: Callable[[], Awaitable[None]] | None) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        code = await process.wait()
        if self._is_done_with(process):
            return
        if lack := lack_of(process, code):
            self._fail(lack, EXIT_DISK_FULL)
            return
        if again is None or code == EXIT_SETTINGS:
            self._fail(f"{process.name} ended with exit code {code}:\n{process.tail()}")
            return
        if loop.time() - began > STEADY_AFTER_S:
            process.restarts = 0
        pause_s = min(RESTART_PAUSE_S * 2**process.restarts, RESTART_PAUSE_MAX_S)
        process.restarts += 1
        self._say(f"{process.name} ended ({_how(code)}), starting it again")
        await asyncio.sleep(pause_s)
        if self._is_done_with(process):
            return
        try:
            await again()
        except StartError as error:
            self._fail(str(error), error.code)

    def _is_done_with(self, process: Process) -> bool:
        return self._stopping or self.processes.get(process.name) is not process

    def _fail(self, why: str, code: int = EXIT_BAD) -> None:
        if not self.failed.done():
            self.failed_code = code
            self.failed.set_result(why)

    def _start_code(self) -> int:
        """What could not start is a matter of use, whatever it would have been later; but for a lack of disk space."""
        return self.failed_code if self.failed_code == EXIT_DISK_FULL else EXIT_USAGE

    async def stop(self) -> None:
        """Stop everything, the bus last, and clean up."""
        self._stopping = True
        watchers = list(self._watchers)
        for task in watchers:
            task.cancel()
        await asyncio.gather(*(process.stop() for process in self.services()))
        rest = [self.processes[name] for name in (SIMULATED_API, NATS_SERVER) if name in self.processes]
        await asyncio.gather(*(process.stop() for process in rest))
        await asyncio.gather(*watchers, return_exceptions=True)
        if self.home != Path() and not self._keep:
            await asyncio.to_thread(shutil.rmtree, self.home, ignore_errors=True)
        await self._watchman.dismiss()


def _port(file: Path) -> int:
    """The port that a child has written; 0 while there is none."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _webhook_address() -> dict[str, str]:
    """Where the API server is to reach admission-webhook: a port that is free now; others are told of it first."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    return {"BERTH_WEBHOOK_URL": f"https://127.0.0.1:{port}", "BERTH_WEBHOOK_PORT": str(port)}


def _instance(service: str, number: int) -> str:
    return service if number == 0 else f"{service}-{number}"


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
