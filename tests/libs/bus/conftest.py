"""A connected bus on a server of the test's own: a real nats-server, and the simulated one.

The same tests run against both, so that the simulated server cannot drift from the real one; with the simulated one,
time is the loop's, and jumps. What is about sockets, certificates or users is for the real
one alone: `pytest.mark.asyncio(loop_factories=["real"])`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any

import pytest

from berth.bus import Bus, BusSettings
from berth.bus.client import Delivery
from berth.testing.nats_server import NatsServer
from berth.testing.simulation.nats.loopback import LoopbackServer
from berth.testing.virtual_loop import LoopClock, VirtualLoop

Connect = Callable[..., Awaitable[Bus]]
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], Any]]:
    """Tests with a server run twice: in an ordinary event loop with a real one, and in one on virtual time."""
    factories: dict[str, Callable[[], Any]] = {"real": asyncio.new_event_loop}
    if "nats_server" in getattr(item, "fixturenames", ()):
        factories["simulated"] = VirtualLoop
    return factories


@pytest.fixture
async def nats_server() -> AsyncIterator[NatsServer | LoopbackServer]:
    """A server of this test's own; kill it, restart it, as you like."""
    if isinstance(asyncio.get_running_loop(), VirtualLoop):
        yield LoopbackServer()
        return
    with NatsServer() as server:
        yield server


@pytest.fixture
async def connect(nats_server: NatsServer | LoopbackServer) -> AsyncIterator[Connect]:
    """Connects as often as the test likes; every bus is closed at its end."""
    buses: list[Bus] = []

    async def make(service: str = "tester", **settings: Any) -> Bus:
        asked = BusSettings(**{"url": nats_server.url} | settings)
        if isinstance(nats_server, LoopbackServer):
            bus = await Bus.connect(asked, service=service, client=nats_server.client, clock=LoopClock())
        else:
            bus = await Bus.connect(asked, service=service)
        buses.append(bus)
        return bus

    yield make
    for bus in buses:
        await bus.close()


@pytest.fixture
async def bus(connect: Connect) -> Bus:
    """Connected, with all buckets and streams in place."""
    bus = await connect()
    await bus.ensure()
    return bus


class Raw:
    """Messages to the server and its answers, as they are."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def put(self, subject: str, data: bytes = b"x", **headers: str) -> Any:
        """Publish, with headers `Nats_Msg_Id="..."`; returns the answer without its `stream`, None for an empty one."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self._bus._link.request(subject, data, timeout_s=5, headers=named or None)
        return {k: v for k, v in json.loads(answer.data).items() if k != "stream"} if answer.data else None

    async def send(self, subject: str, data: bytes = b"x", **headers: str) -> None:
        """Publish without asking for an answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self._bus._link.publish(subject, data, headers=named or None)

    async def api(self, name: str, body: object = None) -> Any:
        """A request of the JetStream API."""
        payload = b"" if body is None else json.dumps(body).encode()
        return json.loads((await self._bus._link.request(f"$JS.API.{name}", payload, timeout_s=5)).data)

    async def listen(self, subject: str) -> list[Delivery]:
        """What arrives on a subject from now on."""
        found: list[Delivery] = []
        await self._bus._link.subscribe(subject, found.append)
        await self._bus._link.flush()
        return found


@pytest.fixture
async def raw(bus: Bus) -> Raw:
    """The server behind `bus`, without berth.bus's own reading of it."""
    return Raw(bus)


@pytest.fixture
async def spawn() -> AsyncIterator[Spawn]:
    """Runs coroutines beside the test; cancelled at its end, what failed fails the test."""
    tasks: list[asyncio.Task[None]] = []

    def start(run: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(run))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
