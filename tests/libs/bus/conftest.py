"""A connected bus on a server of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest

from berth.bus import Bus, BusSettings
from berth.testing.nats_server import NatsServer

Connect = Callable[..., Awaitable[Bus]]
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@pytest.fixture
async def connect(nats_server: NatsServer) -> AsyncIterator[Connect]:
    """Connects as often as the test likes; every bus is closed at its end."""
    buses: list[Bus] = []

    async def make(service: str = "tester", **settings: Any) -> Bus:
        bus = await Bus.connect(BusSettings(**{"url": nats_server.url} | settings), service=service)
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
