"""reservation-manager between a real nats-server and a world that plays the other services."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.services.worlds.reservation.world import World

from berth.testing.nats_server import NatsServer


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[World]:
    world = World(nats_server)
    await world.begin()
    yield world
    await world.end()
