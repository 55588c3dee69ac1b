"""The rest of the control plane around reservation-manager, on a real nats-server."""

from __future__ import annotations

from typing import Any

from tests.services.turns import Turns
from tests.services.worlds.shell import Replica, ShellWorld

from berth.bus import Write
from berth.contracts import buckets, names, state
from berth.contracts.codec import decode, encode
from berth.contracts.command import DeleteObject, PatchObject
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Decision
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.subjects import decision_key, named_key, pod_key
from berth.reservation_manager.settings import SERVICE, Settings
from berth.reservation_manager.shell import Shell, main
from berth.runtime import Context
from berth.runtime.clock import SystemClock
from berth.testing.nats_server import NatsServer
from berth.testing.views import View


class ShiftedClock(SystemClock):
    """A wall clock that is wrong by `offset_s`."""

    offset_s = 0.0

    def now(self) -> float:
        return super().now() + self.offset_s


class World(ShellWorld[Settings]):
    """The rest of the control plane: writes STATE, follows RESERVATION, keeps commands and events."""

    service = SERVICE
    publishes = buckets.RESERVATION
    kinds = ("pods", "nodes", "reservations")
    command = PatchObject | DeleteObject  # type: ignore[assignment]

    def __init__(self, server: NatsServer) -> None:
        self.view = View()
        self.clock = ShiftedClock()
        super().__init__(server, self.view)

    @property
    def subjects(self) -> list[str]:
        """Of the events, in order."""
        return [event.subject for event in self.events]

    async def start(self, instance: str = "one", **settings: Any) -> Replica[Settings]:
        context = await self._context(instance, settings)
        return self.run(context, main(context))

    async def start_shell(self, lease: Turns | None = None, **settings: Any) -> Shell:
        """A replica whose inside the test sees, and whose turns it gives and takes if it has the lease."""
        shell = Shell(await self._context("one", settings))
        if lease is not None:
            shell.standby = lease  # type: ignore[assignment]
        self.run(shell.context, shell.run())
        return shell

    async def _context(self, instance: str, settings: dict[str, Any]) -> Context[Settings]:
        chosen = Settings(**({"lease_ttl_s": 2, "status_retry_s": 0.5} | settings))
        return await self.context(instance, chosen, clock=self.clock)

    def reservation(self, name: str, **fields: Any) -> None:
        self.version += 1
        known: dict[str, Any] = {
            "name": name,
            "uid": f"uid-{name}",
            "version": self.version,
            "phase": "Available",
            "node": "n",
            "allocatable": {"cpu": 4000},
            "owners": [ReservationOwner(label_selector=LabelSelector())],
            "ttl_s": 0.0,
        }
        self.put(named_key("reservation", name), state.Reservation(**(known | fields)))

    def pod(self, name: str, reservation: str = "", node: str = "n") -> None:
        self.version += 1
        notes = {names.ANNOTATION_RESERVATION_ALLOCATED: f'{{"name":"{reservation}","uid":"uid-{reservation}"}}'}
        template = state.PodTemplate(requests={"cpu": 1000, "memory": 1}, annotations=notes if reservation else {})
        pod = state.Pod(namespace="ns", name=name, uid=name, version=self.version, template=template, node=node)
        self.put(pod_key("ns", name), pod)

    async def decided(self, name: str, reservation: str = "", epoch: int = 0) -> None:
        """A decision on a pod stands in LEDGER."""
        decision = Decision(
            plan="p",
            namespace="ns",
            name=name,
            uid=name,
            attempt=1,
            node="n",
            pod_version=1,
            basis=1,
            reservation=reservation,
            reservation_uid=f"uid-{reservation}" if reservation else "",
        )
        key = decision_key(epoch, "ns", name)
        await self.bus.ledger().commit([Write(key, encode(decision), 0)])

    def node(self, name: str = "n") -> None:
        self.version += 1
        self.put(named_key("node", name), state.Node(name=name, uid=name, version=self.version))

    def reserved(self, name: str) -> ReservedCapacity | None:
        value = self.view.values.get(named_key("reservation", name))
        return None if value is None else decode(value, ReservedCapacity)
