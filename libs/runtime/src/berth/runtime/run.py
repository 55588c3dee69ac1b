"""The life of a service process: settings, telemetry, health, bus, `main`, stop.

Exit codes: 0 after a stop signal or when all work is done, 1 when a task failed, 2 when the process could not be set up
as configured (settings, port), 3 when the bus cannot carry it (no disk space for a stream, too old a server, a user
without the right). SIGTERM and SIGINT cancel `main` first, so that it can finish what it began while the tasks it
spawned still serve it; then those tasks; then the bus and the health server are closed. The whole of it takes at most
`drain_s` and a few seconds, even when something hangs. A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar, cast

import uvloop

from berth import telemetry
from berth.runtime import process
from berth.runtime.clock import SystemClock
from berth.runtime.context import Context
from berth.runtime.crowding import Crowding, turns_of_this_thread
from berth.runtime.heartbeat import pulse
from berth.runtime.settings import ServiceSettings, SettingsError, load_settings, variable_of
from berth.runtime.supervisor import Supervisor
from berth.telemetry import Health, HealthServer, Logger, get_logger, serve_health
from berth.telemetry.redaction import redacted_text

if TYPE_CHECKING:
    from berth.bus.port import BusPort
    from berth.bus.settings import BusSettings

S = TypeVar("S", bound=ServiceSettings)
Main = Callable[[Context[S]], Awaitable[None]]

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_SETTINGS: Final = 2
EXIT_BUS: Final = 3
BUS_UNUSABLE: Final = "the bus cannot be used as it is"
"""The log line of a process that ends with `EXIT_BUS`; its `reason` says what to mend."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_CLOSE_TIMEOUT_S: Final = 2.0
_FAILED_DRAIN_S: Final = 2.0
_THREADS_TIMEOUT_S: Final = 1.0


def run(
    service: str,
    settings_type: type[S],
    main: Main[S],
    *,
    with_bus: bool = True,
    before_bus: Main[S] | None = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Run a service in this process until it stops; the result is the exit code.

    `main` gets the `Context` once the bus is connected. It may run until it is cancelled, or spawn tasks and return:
    the process goes on while any task runs. `with_bus=False` is for programs that have no part in the bus;
    `Context.bus` is then unusable. `before_bus` is for work that cannot wait for a bus: it runs as a task of
    its own from the start, with a context without one.
    """
    try:
        settings = load_settings(settings_type, os.environ if environ is None else environ)
        if with_bus:
            bus_settings(settings)
    except SettingsError as error:
        for problem in error.problems:
            print(f"{service}: {problem}", file=sys.stderr)
        return EXIT_SETTINGS
    version = _version(service)
    telemetry.setup(
        service,
        instance=settings.instance_or_default(),
        version=version,
        log_level=settings.log_level,
        log_format=settings.log_format,
    )
    process.tune_garbage_collection()
    if settings.exit_with_parent:
        process.signal_on_parent_death()
    life = _Life(service, version, settings, main, with_bus, before_bus)
    code, hung = _on_a_loop(life.run())
    telemetry.shutdown()
    hung += process.lingering_threads(_THREADS_TIMEOUT_S)
    if hung:
        get_logger("berth.runtime").warning("left behind at exit", what=hung)
        sys.stderr.flush()
        os._exit(code)
    return code


class _Life(Generic[S]):
    """One process from its first await to its last."""

    def __init__(
        self, service: str, version: str, settings: S, main: Main[S], with_bus: bool, before_bus: Main[S] | None
    ) -> None:
        self._service = service
        self._version = version
        self._settings = settings
        self._main = main
        self._with_bus = with_bus
        self._before_bus = before_bus
        self._log: Logger = get_logger("berth.runtime")
        self._clock = SystemClock()
        self._health = Health(beat_timeout_s=settings.heartbeat_timeout_s)
        self._supervisor = Supervisor(self._log, self._tell_of_bus)
        self._stop = asyncio.Event()
        self._stop_reason = ""
        self._bus: BusPort | None = None

    async def run(self) -> tuple[int, list[str]]:
        """The exit code, and the names of tasks that would not end."""
        self._listen_to_signals()
        self._health.add("running", lambda: (not self._stop.is_set(), self._stop_reason or "running"))
        try:
            server = await self._serve_health()
        except OSError as error:
            self._log.error(
                "cannot serve health checks: change BERTH_HTTP_HOST, BERTH_HTTP_PORT or the path BERTH_PORT_FILE",
                host=self._settings.http_host,
                port=self._settings.http_port,
                error=str(error),
            )
            return EXIT_SETTINGS, []
        orphaned = (
            (lambda: self._ask_to_stop("the parent process is gone")) if self._settings.exit_with_parent else None
        )
        heart = asyncio.create_task(pulse(self._health, orphaned=orphaned), name="heartbeat")
        main = self._supervisor.spawn(self._connect_and_main(), name="main")
        await self._until_over()
        hung = await self._wind_down(main)
        heart.cancel()
        await asyncio.wait({heart})
        await self._close("health server", server.close())
        code = self._exit_code()
        self._log.info("stopped", exit_code=code)
        return code, hung

    def _exit_code(self) -> int:
        failure = self._supervisor.failure
        if failure is None:
            return EXIT_OK
        return EXIT_BUS if self._lack_of_bus(failure) else EXIT_FAILED

    def _tell_of_bus(self, failure: BaseException) -> bool:
        reason = self._lack_of_bus(failure)
        if reason:
            self._log.error(BUS_UNUSABLE, reason=reason)
        return bool(reason)

    def _lack_of_bus(self, failure: BaseException) -> str:
        """What the operator has to mend on the bus; empty when that is not why."""
        if not self._with_bus:
            return ""
        from berth.bus.errors import Denied, ServerTooOld, TopologyError

        if isinstance(failure, Denied):
            return _remedy(self._service, self._settings, failure.subject)
        return str(failure) if isinstance(failure, ServerTooOld | TopologyError) else ""

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stop.is_set():
            self._log.warning("second signal: ending at once", signal=number.name)
            os._exit(EXIT_FAILED)
        self._ask_to_stop(f"got {number.name}")

    def _ask_to_stop(self, reason: str) -> None:
        if not self._stop.is_set():
            self._stop_reason = reason
            self._stop.set()

    async def _serve_health(self) -> HealthServer:
        server = await serve_health(self._settings.http_host, self._settings.http_port, self._health)
        try:
            if self._settings.port_file:
                process.write_port_file(self._settings.port_file, server.port)
        except OSError:
            await server.close()
            raise
        self._log.info("started", version=self._version, http_host=server.host, http_port=server.port, pid=os.getpid())
        return server

    async def _connect_and_main(self) -> None:
        if self._before_bus is not None:
            self._supervisor.spawn(_awaited(self._before_bus(self._context())), name="before-bus")
        if self._with_bus:
            self._health.add("bus", self._check_bus)
            self._bus = await _connect_bus(self._service, self._settings, self._clock)
        await self._main(self._context())

    def _context(self) -> Context[S]:
        return Context(
            service=self._service,
            settings=self._settings,
            bus=self._bus if self._bus is not None else cast("BusPort", _NoBus()),
            instance=self._settings.instance_or_default(),
            clock=self._clock,
            random=random.Random(),
            health=self._health,
            log=get_logger(f"berth.{self._service.replace('-', '_')}"),
            supervisor=self._supervisor,
            crowding=Crowding(turns_of_this_thread()),
        )

    def _check_bus(self) -> tuple[bool, str]:
        if self._bus is None:
            return False, f"connecting to {redacted_text(self._settings.nats_url)}"
        reported = getattr(self._bus, "connected", None)
        connected = reported.is_set() if isinstance(reported, asyncio.Event) else bool(reported)
        return connected, "connected" if connected else "connection lost, trying again"

    async def _until_over(self) -> None:
        """A stop signal, a failed task, or no work left."""
        stopping = asyncio.create_task(self._stop.wait())
        finished = asyncio.create_task(self._supervisor.finished())
        await asyncio.wait({stopping, finished}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, finished):
            task.cancel()

    async def _wind_down(self, main: asyncio.Task[Any]) -> list[str]:
        failed = self._supervisor.failure is not None
        self._ask_to_stop("a task failed" if failed else "all work is done")
        drain_s = min(self._settings.drain_s, _FAILED_DRAIN_S) if failed else self._settings.drain_s
        self._log.info("stopping", reason=self._stop_reason, drain_s=drain_s)
        hung = await self._supervisor.stop(main, drain_s)
        if hung:
            self._log.warning("tasks did not end in time", tasks=hung)
        if self._bus is not None:
            await self._close("bus", self._bus.close())
        return hung

    async def _close(self, what: str, closing: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await closing
        except Exception as error:
            self._log.warning("did not close cleanly", what=what, error=f"{type(error).__name__}: {error}")


async def _awaited(work: Awaitable[None]) -> None:
    await work


class _NoBus:
    """Stands where the bus would be in a program that runs without one."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(f"bus.{name}: this program runs without a bus")


def bus_settings(settings: ServiceSettings, *, name: str = "") -> BusSettings:
    """How to reach the bus, under this name or the instance's. Raises SettingsError naming the variable."""
    from berth.bus.settings import BusSettings

    try:
        return BusSettings(
            url=settings.nats_url,
            user=settings.nats_user,
            password_file=settings.nats_password_file,
            creds_file=settings.nats_creds_file,
            ca_file=settings.nats_ca_file,
            name=name or settings.instance_or_default(),
            replicas=settings.nats_replicas,
            read_pause_s=settings.nats_read_pause_s,
            domain=settings.nats_domain,
            inbox=settings.inbox(),
        )
    except ValueError as error:
        field, _, reason = str(error).partition(": ")
        raise SettingsError([f"{variable_of('nats_' + field)}: {reason}"]) from error


def _remedy(service: str, settings: ServiceSettings, subject: str) -> str:
    """What to do about a denied subject: it is the wrong user, or one with the rights of another version."""
    if settings.nats_user:
        who = f"user {settings.nats_user!r} (BERTH_NATS_USER)"
    elif settings.nats_creds_file:
        who = f"the user of {settings.nats_creds_file} (BERTH_NATS_CREDS_FILE)"
    else:
        who = "a client without BERTH_NATS_USER"
    return (
        f"{who} may not use {subject}: {service} needs its own user of the bus, with the rights in users.conf of this "
        "version; put that file in place and restart the bus"
    )


async def _connect_bus(service: str, settings: ServiceSettings, clock: SystemClock) -> BusPort:
    from berth.bus import Bus

    settings_of_bus = bus_settings(settings)
    return cast("BusPort", await Bus.connect(settings_of_bus, service=service, clock=clock, random=random.Random()))


def _on_a_loop(life: Coroutine[Any, Any, tuple[int, list[str]]]) -> tuple[int, list[str]]:
    """Like `asyncio.run`, but what refuses to be cancelled is named and left behind instead of waited for."""
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    code, hung = loop.run_until_complete(life)
    left = {task for task in asyncio.all_tasks(loop) if task.get_name() not in hung}
    for task in left:
        task.cancel()
    if left:
        _, pending = loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_TIMEOUT_S))
        hung += [task.get_name() for task in pending]
    if not hung:
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()
    return code, hung


def _version(service: str) -> str:
    try:
        return importlib.metadata.version(f"berth-{service}")
    except importlib.metadata.PackageNotFoundError:
        return "0"
