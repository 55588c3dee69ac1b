"""Services as simulated processes: the same settings, `main` and supervision as in a real one, restarted when they end.

What is left out is what only a machine has: signals, the HTTP server of health and metrics, heartbeats of a thread. A
process that ends is started anew after a while, as Kubernetes does: with the same name, and nothing of what it knew.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from berth.bus.port import BusPort
from berth.bus.settings import BusSettings
from berth.runtime.context import Context
from berth.runtime.run import bus_settings
from berth.runtime.settings import ServiceSettings, load_settings
from berth.runtime.supervisor import Supervisor
from berth.telemetry import Health, get_logger
from berth.telemetry.traceparent import draw_identifiers_from
from berth.testing.simulation.journal import Journal
from berth.testing.simulation.kube_server import SimKube
from berth.testing.simulation.kube_transport import connector
from berth.testing.simulation.process import Process
from berth.testing.simulation.world import World

if TYPE_CHECKING:
    from berth.kube import Kube, KubeSettings
    from berth.runtime.clock import Clock

BusFactory = Callable[[Process, BusSettings, str], Awaitable[BusPort]]
"""Connects a process to the bus: process, settings, name of the service."""

Main = Callable[[Context[Any]], Coroutine[Any, Any, None]]

_CLOSE_TIMEOUT_S: Final = 2.0
_FAILED_DRAIN_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """A service that can be run: what its `__main__` hands to `berth.runtime.run`, and its environment.

    A program with a half that waits for no bus has `halves` instead of `main`: `main` and `before_bus`, made anew for
    each process, since they share what they know.
    """

    name: str
    settings_type: type[Any]
    main: Main | None = None
    halves: Callable[[], tuple[Main, Main]] | None = None
    environ: Mapping[str, str] = field(default_factory=dict)

    def program(self) -> tuple[Main, Main | None]:
        """`main` and `before_bus` of a new process. Raises ValueError for a service that is neither."""
        if self.halves is not None:
            return self.halves()
        if self.main is None:
            raise ValueError(f"{self.name}: neither main nor halves")
        return self.main, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A process that did not end because it was killed or told to stop."""

    at_s: float
    process: str
    error: BaseException | None


class Replica:
    """One replica of a service through all its incarnations."""

    def __init__(self, host: Host, spec: ServiceSpec, instance: str) -> None:
        self.spec = spec
        self.instance = instance
        self.process: Process | None = None
        """The present incarnation, or the last one."""
        self.context: Context[Any] | None = None
        """What the present incarnation was given, once it is connected to the bus. For looking only."""
        self.starts = 0
        self.wanted = True
        """Whether it is started anew when it ends."""
        self._host = host
        self._stop: asyncio.Event | None = None

    def __repr__(self) -> str:
        return f"<Replica {self.instance}{'' if self.up else ' down'}>"

    @property
    def up(self) -> bool:
        """Whether there is a living process."""
        return self.process is not None and self.process.alive

    @property
    def ready(self) -> bool:
        """What its readiness endpoint would say."""
        return self.up and self.context is not None and self.context.health.ready

    def start(self) -> None:
        """Start it now; nothing happens while it is up."""
        self.wanted = True
        if not self.up:
            self._host.launch(self)

    def kill(self, *, after_callbacks: int = 0) -> None:
        """kill -9, now or in the middle of what it does next; it comes again by itself."""
        if self.process is not None:
            self.process.kill_after(after_callbacks)

    def stop(self) -> None:
        """SIGTERM: it may finish its work, and does not come again before `start`."""
        self.wanted = False
        self.terminate()

    def terminate(self) -> None:
        """SIGTERM: it may finish its work, and comes again."""
        if self.up and self.process is not None and self._stop is not None:
            self.process.call(self._stop.set)

    def down(self) -> None:
        """kill -9, and it does not come again before `start`."""
        self.wanted = False
        self.kill()

    def began(self, process: Process) -> None:
        """A new incarnation."""
        self.process, self.context, self._stop = process, None, None
        self.starts += 1

    async def run(self, process: Process) -> None:
        """The life of one incarnation, from its first await to its last. Raises what its first failed task raised."""
        host, spec = self._host, self.spec
        log = get_logger(f"berth.{spec.name.replace('-', '_')}")
        settings: ServiceSettings = load_settings(spec.settings_type, spec.environ)
        settings = msgspec.structs.replace(settings, instance=self.instance)
        supervisor = Supervisor(log)
        stop = self._stop = asyncio.Event()
        bus: BusPort | None = None

        health = Health(beat_timeout_s=settings.heartbeat_timeout_s, monotonic=process.clock.monotonic)
        service_main, before_bus = spec.program()

        def context(connected: BusPort) -> Context[Any]:
            return Context(
                service=spec.name,
                settings=settings,
                bus=connected,
                instance=self.instance,
                clock=process.clock,
                random=process.random,
                health=health,
                log=log,
                supervisor=supervisor,
                connect_kube=host.connect_kube(process),
            )

        async def connect_and_main() -> None:
            nonlocal bus
            if before_bus is not None:
                without_bus = context(cast("BusPort", None))
                supervisor.spawn(before_bus(without_bus), name="before-bus")
            bus = await host.connect_bus(process, bus_settings(settings), spec.name)
            self.context = context(bus)
            await service_main(self.context)

        main = supervisor.spawn(connect_and_main(), name="main")
        stopping = asyncio.create_task(stop.wait())
        finished = asyncio.create_task(supervisor.finished())
        await asyncio.wait({stopping, finished}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        finished.cancel()
        failed = supervisor.failure is not None
        await supervisor.stop(main, min(settings.drain_s, _FAILED_DRAIN_S) if failed else settings.drain_s)
        if bus is not None:
            await _close(bus)
        if supervisor.failure is not None:
            raise supervisor.failure


class Host:
    """Where replicas run. One for each world; see the module."""

    def __init__(
        self,
        world: World,
        journal: Journal,
        *,
        bus: BusFactory,
        kube: SimKube | None = None,
        restart_s: tuple[float, float] = (0.5, 3.0),
        clock_skew_s: float = 0.0,
    ) -> None:
        """`restart_s`: how long a process that ended is gone, drawn anew each time. `clock_skew_s`: at most, of one
        process.
        """
        self.world = world
        self.journal = journal
        self.replicas: list[Replica] = []
        self.failures: list[Failure] = []
        """Processes that ended by themselves."""
        self.connect_bus = bus
        self._kube = kube
        self._restart_s = restart_s
        self._skew_s = clock_skew_s
        self._rng: random.Random = world.chance("host")
        draw_identifiers_from(world.chance("traces"))

    def run(self, spec: ServiceSpec, *, replicas: int = 1) -> list[Replica]:
        """Start so many replicas of a service, named after it."""
        made = [Replica(self, spec, f"{spec.name}-{number}") for number in range(replicas)]
        self.replicas += made
        for replica in made:
            self.launch(replica)
        return made

    def of(self, service: str) -> list[Replica]:
        """The replicas of a service."""
        return [replica for replica in self.replicas if replica.spec.name == service]

    def launch(self, replica: Replica) -> None:
        """Start a process for it, now."""
        skew_s = self._rng.uniform(-self._skew_s, self._skew_s)
        process = self.world.process(replica.instance, clock_skew_s=skew_s)
        replica.began(process)
        process.on_end(lambda ended: self._ended(replica, ended))
        self.journal.note("starts", process=process.loop.name)
        process.start(replica.run(process))

    def connect_kube(self, process: Process) -> Callable[[KubeSettings, Clock], Awaitable[Kube]]:
        """`Context.connect_kube` of a process."""
        return connector(self._kube, self.world, process) if self._kube is not None else _no_kube

    def unseen_failures(self) -> list[str]:
        """What asyncio would have logged in any process: each one is a mistake."""
        return [f"{process.loop.name}: {text}" for process in self.world.processes for text in process.unseen_failures]

    def _ended(self, replica: Replica, process: Process) -> None:
        self.journal.note("ended", process=process.loop.name, exc_info=process.failure, killed=not process.finished)
        if process.failure is not None or (process.finished and replica.wanted):
            self.failures.append(Failure(at_s=self.world.now, process=process.loop.name, error=process.failure))
        if replica.wanted and replica.process is process:
            self.world.later(self._rng.uniform(*self._restart_s), None, self._again, replica)

    def _again(self, replica: Replica) -> None:
        if replica.wanted and not replica.up:
            self.launch(replica)


async def _no_kube(settings: KubeSettings, clock: Clock) -> Kube:
    raise RuntimeError("this simulation has no API server")


async def _close(bus: BusPort) -> None:
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await bus.close()
    except Exception as error:
        get_logger("berth.runtime").warning(
            "did not close cleanly", what="bus", error=f"{type(error).__name__}: {error}"
        )
