"""The rest of the control plane around one service that reads STATE, on a real nats-server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, ClassVar, Generic, TypeVar

from berth.bus import Bus, BusSettings
from berth.bus.port import Message, Sink
from berth.contracts import base, buckets, state
from berth.contracts.codec import decode, encode
from berth.contracts.command import PatchObject
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.subjects import question_subject, synced_key
from berth.runtime import Context
from berth.runtime.settings import ServiceSettings
from berth.testing.nats_server import NatsServer

S = TypeVar("S", bound=ServiceSettings)
Replica = tuple[Context[S], asyncio.Task[None]]


class ShellWorld(Generic[S]):
    """Writes STATE, follows what the service publishes, keeps its commands and events, and runs its replicas here."""

    service: ClassVar[str]
    publishes: ClassVar[str]
    """The bucket of the service."""
    kinds: ClassVar[tuple[str, ...]]
    """The kinds of STATE whose completeness it waits for."""
    command: ClassVar[type[base.Message]] = PatchObject
    """What it asks cluster-writer for."""

    def __init__(self, server: NatsServer, published: Sink) -> None:
        self.server = server
        self.commands: list[Any] = []
        self.events: list[Message] = []
        self.replicas: list[Replica[S]] = []
        self.version = 0
        self._published = published

    async def begin(self) -> None:
        self.bus = await Bus.connect(BusSettings(url=self.server.url), service="test")
        await self.bus.ensure()
        self.state = self.bus.owned(buckets.STATE)
        await self.state.ready()
        self._follow = asyncio.create_task(self.bus.follow(self.publishes, self._published).run())
        await self.bus.subscribe("berth.v1.cmd.>", self._command)
        await self.bus.subscribe("berth.v1.evt.>", self._event)

    async def end(self) -> None:
        for replica in list(self.replicas):
            await self.stop(replica)
        self._follow.cancel()
        await asyncio.gather(self._follow, return_exceptions=True)
        await self.bus.close()

    async def context(self, instance: str, settings: S, **more: Any) -> Context[S]:
        """What a replica is given, with a connection of its own."""
        bus = await Bus.connect(BusSettings(url=self.server.url), service=self.service)
        return Context(service=self.service, settings=settings, bus=bus, instance=instance, **more)

    def run(self, context: Context[S], work: Coroutine[Any, Any, None]) -> Replica[S]:
        """A replica at work, until it is stopped or crashes."""
        self.replicas.append((context, asyncio.create_task(work)))
        return self.replicas[-1]

    async def stop(self, replica: Replica[S]) -> None:
        """As SIGTERM does."""
        context, task = replica
        self.replicas.remove(replica)
        assert await context.supervisor.stop(task, 10.0) == []
        results = await asyncio.gather(task, return_exceptions=True)
        await context.bus.close()
        for error in (context.supervisor.failure, *results):
            if isinstance(error, Exception):
                raise error

    async def crash(self, replica: Replica[S]) -> None:
        """No goodbye: the connection goes first."""
        context, task = replica
        self.replicas.remove(replica)
        await context.bus.close()
        await context.supervisor.stop(task, 5.0)
        await asyncio.gather(task, return_exceptions=True)

    def put(self, key: str, message: base.Message) -> None:
        self.state.put(key, encode(message))

    def complete(self, *, complete: bool = True) -> None:
        """The markers of all kinds: what was written so far is all there is, or it is not known to be."""
        for kind in self.kinds:
            self.put(synced_key(kind), state.Synced(kind=kind, version=self.version, complete=complete))

    async def status(self) -> StatusAnswer:
        answer = await self.bus.ask(question_subject(self.service, "status"), encode(StatusQuestion()))
        return decode(answer, StatusAnswer)

    async def _command(self, message: Message) -> None:
        self.commands.append(decode(message.data, self.command))

    async def _event(self, message: Message) -> None:
        self.events.append(message)
