"""What is done to a store while its server is down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from berth.bus import Bus
from berth.testing.nats_server import NatsServer
from berth.testing.simulation.nats.loopback import LoopbackServer
from berth.testing.views import eventually

T = TypeVar("T")


async def while_down(bus: Bus, server: NatsServer | LoopbackServer, act: Callable[[], T]) -> T:
    """Kill the server, act, start it again; returns what `act` returned, once the bus is connected."""
    server.kill()
    await eventually(lambda: not bus.connected.is_set())
    done = act()
    server.start()
    await asyncio.wait_for(bus.connected.wait(), 20)
    return done
