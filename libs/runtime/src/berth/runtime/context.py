"""What a service is given: everything outside its core, as arguments."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from berth.runtime.clock import Clock, SystemClock
from berth.runtime.crowding import Crowding
from berth.runtime.supervisor import Supervisor
from berth.telemetry import Health, Logger, get_logger

if TYPE_CHECKING:
    import asyncio

    from berth.bus.port import BusPort
    from berth.kube import Kube, KubeSettings

SettingsT = TypeVar("SettingsT")

KUBE_RETRY_S = 5.0


async def _connect_kube(settings: KubeSettings, clock: Clock) -> Kube:
    from berth.kube import Kube  # most services have nothing to do with it, and their images do without

    return await Kube.connect(settings, clock=clock)


@dataclass(kw_only=True, slots=True)
class Context(Generic[SettingsT]):
    """One process (or one simulated process) of a service. `instance` is unique among all replicas of all services."""

    service: str
    settings: SettingsT
    bus: BusPort
    instance: str = "0"
    clock: Clock = field(default_factory=SystemClock)
    random: random.Random = field(default_factory=random.Random)
    health: Health = field(default_factory=Health)
    log: Logger = field(default_factory=lambda: get_logger("berth"))
    supervisor: Supervisor = field(default_factory=lambda: Supervisor(get_logger("berth")))
    crowding: Crowding = field(default_factory=Crowding)
    """How full the machine is; not at all, where time is simulated."""
    connect_kube: Callable[[KubeSettings, Clock], Awaitable[Kube]] = _connect_kube

    async def kube(self, settings: KubeSettings) -> Kube:
        """A client of the API server; closing it is the caller's. Raises KubeConfigError."""
        return await self.connect_kube(settings, self.clock)

    async def kube_patiently(self, settings: KubeSettings) -> Kube:
        """The same, for as long as it takes: Kubernetes' credentials may not be there yet when a pod starts."""
        from berth.kube import KubeConfigError

        while True:
            try:
                return await self.kube(settings)
            except KubeConfigError as error:
                self.log.error("cannot connect to Kubernetes, trying again", error=str(error))
            await self.clock.sleep(KUBE_RETRY_S)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run a supervised task: if it raises, the process logs why and ends with exit code 1.

        It keeps running while `main` finishes its work after a stop signal, and is cancelled then.
        """
        return self.supervisor.spawn(coroutine, name=name)
