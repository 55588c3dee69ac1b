"""The rest of the control plane around reservation-manager, on a real nats-server."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.services.turns import Turns

from berth.bus import Bus, BusSettings
from berth.bus.port import Message
from berth.contracts import buckets, names, state
from berth.contracts.codec import decode, encode
from berth.contracts.command import PatchObject
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.reservation import ReservedRoom
from berth.contracts.subjects import named_key, pod_key, synced_key
from berth.reservation_manager.settings import Settings
from berth.reservation_manager.shell import SERVICE, Shell, main
from berth.runtime import Context
from berth.runtime.clock import SystemClock
from berth.testing.nats_server import NatsServer
from berth.testing.views import View

Replica = tuple[Context[Settings], asyncio.Task[None]]
KINDS = ("pods", "nodes", "reservations")


class ShiftedClock(SystemClock):
    """A wall clock that is wrong by `offset_s`."""

    offset_s = 0.0

    def now(self) -> float:
        return super().now() + self.offset_s


class World:
    """The rest of the control plane: writes STATE, follows RESERVATION, keeps commands and events."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self.view = View()
        self.clock = ShiftedClock()
        self.patches: list[PatchObject] = []
        self.subjects: list[str] = []
        self.replicas: list[Replica] = []
        self.version = 0

    async def begin(self) -> None:
        self.bus = await Bus.connect(BusSettings(url=self.server.url), service="test")
        await self.bus.ensure()
        self.state = self.bus.owned(buckets.STATE)
        await self.state.ready()
        self.follow = asyncio.create_task(self.bus.follow(buckets.RESERVATION, self.view).run())
        await self.bus.subscribe("berth.v1.cmd.>", self._command)
        await self.bus.subscribe("berth.v1.evt.>", self._event)

    async def end(self) -> None:
        for replica in list(self.replicas):
            await self.stop(replica)
        self.follow.cancel()
        await asyncio.gather(self.follow, return_exceptions=True)
        await self.bus.close()

    async def start(self, instance: str = "one", **settings: Any) -> Replica:
        context = await self.context(instance, **settings)
        replica = (context, asyncio.create_task(main(context)))
        self.replicas.append(replica)
        return replica

    async def start_shell(self, lease: Turns | None = None, **settings: Any) -> Shell:
        """A replica whose inside the test sees, and whose turns it gives and takes if it has the lease."""
        shell = Shell(await self.context("one", **settings))
        if lease is not None:
            shell.standby = lease  # type: ignore[assignment]
        self.replicas.append((shell.context, asyncio.create_task(shell.run())))
        return shell

    async def context(self, instance: str, **settings: Any) -> Context[Settings]:
        bus = await Bus.connect(BusSettings(url=self.server.url), service=SERVICE)
        chosen = Settings(**({"lease_ttl_s": 2, "status_retry_s": 0.5} | settings))
        return Context(service=SERVICE, settings=chosen, bus=bus, instance=instance, clock=self.clock)

    async def stop(self, replica: Replica) -> None:
        context, task = replica
        self.replicas.remove(replica)
        assert await context.supervisor.stop(task, 10.0) == []
        await asyncio.gather(task, return_exceptions=True)
        await context.bus.close()
        assert context.supervisor.failure is None

    async def crash(self, replica: Replica) -> None:
        context, task = replica
        self.replicas.remove(replica)
        await context.bus.close()
        await context.supervisor.stop(task, 5.0)
        await asyncio.gather(task, return_exceptions=True)

    async def _command(self, message: Message) -> None:
        self.patches.append(decode(message.data, PatchObject))

    async def _event(self, message: Message) -> None:
        self.subjects.append(message.subject)

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
        self.state.put(named_key("reservation", name), encode(state.Reservation(**(known | fields))))

    def pod(self, name: str, reservation: str = "", node: str = "n") -> None:
        self.version += 1
        notes = {names.ANNOTATION_RESERVATION_ALLOCATED: f'{{"name":"{reservation}","uid":"uid-{reservation}"}}'}
        template = state.PodTemplate(requests={"cpu": 1000, "memory": 1}, annotations=notes if reservation else {})
        pod = state.Pod(namespace="ns", name=name, uid=name, version=self.version, template=template, node=node)
        self.state.put(pod_key("ns", name), encode(pod))

    def node(self, name: str = "n") -> None:
        self.version += 1
        self.state.put(named_key("node", name), encode(state.Node(name=name, uid=name, version=self.version)))

    def complete(self, *, complete: bool = True) -> None:
        for kind in KINDS:
            marker = state.Synced(kind=kind, version=self.version, complete=complete)
            self.state.put(synced_key(kind), encode(marker))

    def room(self, name: str) -> ReservedRoom | None:
        value = self.view.values.get(named_key("reservation", name))
        return None if value is None else decode(value, ReservedRoom)
