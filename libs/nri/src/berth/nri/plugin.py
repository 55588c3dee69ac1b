"""The plugin: connects to the runtime, again and again, for as long as it runs."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec
from google.protobuf.message import DecodeError

from berth.nri import api_pb2 as api
from berth.nri import metrics
from berth.nri.connection import Connection
from berth.nri.core import ttrpc
from berth.nri.core.adjusting import Update, update_messages
from berth.nri.core.back_off import BackOff
from berth.nri.core.fault import Fault
from berth.nri.core.session import Answer
from berth.nri.handler import Handler, Runtime
from berth.nri.settings import PluginSettings

log = logging.getLogger(__name__)

Dial = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
UPDATE_BYTES_MAX = 1 << 20
"""Of one call; more updates than fit go in several."""


class Status(msgspec.Struct, frozen=True):
    """Whether the runtime asks us; if not, what ended the latest connection."""

    is_ready: bool
    runtime: Runtime | None = None
    fault: Fault | None = None
    connections: int = 0
    """How many there have been."""


class Pushed(msgspec.Struct, frozen=True):
    """What became of updates: containers whose update failed, and why the rest was not sent, if it was not.

    Of a container that is gone, or not yet there, the runtime says nothing.
    """

    failed: tuple[str, ...] = ()
    fault: Fault | None = None


class Plugin:
    """A plugin of the runtime behind one socket.

    `run` serves until it is cancelled, over one connection at a time. Two plugins that set the same thing make every
    creation fail, so end the old process before the new one runs.
    """

    def __init__(
        self,
        settings: PluginSettings,
        handler: Handler,
        *,
        dial: Dial | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._handler = handler
        self._dial = dial or self._dial_socket
        self._chance = chance
        self._connection: Connection | None = None
        self._fault: Fault | None = None
        self._connections = 0
        self._pushing = asyncio.Lock()

    @property
    def status(self) -> Status:
        """How it stands now."""
        connection = self._connection
        if connection is None:
            return Status(False, None, self._fault, self._connections)
        return Status(connection.is_ready, connection.runtime, self._fault, self._connections)

    async def run(self) -> None:
        """Connect, serve, pause, for ever. The former connection is closed before the next is made."""
        settings = self._settings
        back_off = BackOff(settings.pause_first_s, settings.pause_most_s, held_s=settings.held_s)
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            fault = await self._once()
            lived_s = loop.time() - began if fault.kind != "unreachable" else 0.0
            pause_s = back_off.after(lived_s, self._chance())
            if fault != self._fault:
                # A runtime that stays away says the same each time.
                log.warning("NRI: %s (%s); next try in %.1f s", fault.text, fault.kind, pause_s)
            self._fault = fault
            metrics.FAULTS.labels(fault.kind).inc()
            await asyncio.sleep(pause_s)

    async def update_containers(self, updates: Sequence[Update]) -> Pushed:
        """Give containers new limits, now. Not to be awaited in a handler: the runtime would answer neither."""
        failed: list[str] = []
        async with self._pushing:
            parts = list(_parts(update_messages(updates)))[::-1]
            while parts:
                part = parts.pop()
                answer = await self._push(part)
                if isinstance(answer, Answer) and answer.code == ttrpc.UNKNOWN and len(part) > 1:
                    # containerd carries out what it can, and does not name what it could not: halves find it.
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                    continue
                found = _failed(part, answer)
                if isinstance(found, Fault):
                    metrics.UPDATES.labels(found.kind).inc(len(part))
                    return Pushed(tuple(failed), found)
                metrics.UPDATES.labels("failed").inc(len(found))
                metrics.UPDATES.labels("done").inc(max(len(part) - len(found), 0))
                failed += found
        return Pushed(tuple(failed))

    async def _push(self, part: list[api.ContainerUpdate]) -> Answer | Fault:
        connection = self._connection
        if connection is None or not connection.is_ready:
            return Fault("unreachable", "UpdateContainers: no runtime is connected")
        request = api.UpdateContainersRequest(update=part)
        return await connection.ask("UpdateContainers", request, self._settings.call_s)

    async def _once(self) -> Fault:
        try:
            async with asyncio.timeout(self._settings.register_s):
                reader, writer = await self._dial()
        except TimeoutError:
            return Fault("unreachable", f"{self._settings.socket}: no connection in {self._settings.register_s:g} s")
        except OSError as error:
            return Fault("unreachable", f"{self._settings.socket}: {error.strerror or type(error).__name__}")
        self._connections += 1
        self._connection = Connection(reader, writer, self._handler, self._settings)
        try:
            fault = await self._connection.run()
        finally:
            self._connection = None
        await self._tell(fault)
        return fault

    async def _tell(self, fault: Fault) -> None:
        try:
            async with asyncio.timeout(self._settings.call_s):
                await self._handler.disconnected(fault)
        except Exception as error:
            log.error("NRI: the handler raised %s on the end of a connection", type(error).__name__)

    async def _dial_socket(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self._settings.socket)


def _parts(updates: list[api.ContainerUpdate]) -> Iterator[list[api.ContainerUpdate]]:
    part: list[api.ContainerUpdate] = []
    size = 0
    for update in updates:
        if part and size + update.ByteSize() > UPDATE_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(update)
        size += update.ByteSize()
    if part:
        yield part


def _failed(part: list[api.ContainerUpdate], answer: Answer | Fault) -> list[str] | Fault:
    if isinstance(answer, Fault):
        return answer
    if answer.code == ttrpc.UNKNOWN and len(part) == 1:
        return [part[0].container_id]
    if answer.code != ttrpc.OK:
        return Fault("refused", f"UpdateContainers: status {answer.code}: {answer.text[:200]}")
    try:
        return [each.container_id for each in api.UpdateContainersResponse.FromString(answer.payload).failed]
    except DecodeError:
        return Fault("malformed", f"UpdateContainers: an answer of {len(answer.payload)} bytes cannot be read")
