"""Partitions: a service from the bus, a service from the API server, one bus server from the two others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from tests.chaos.experiment import run
from tests.chaos.field import BUS_CONFIG, Field, open_field
from tests.chaos.test_bus import leader, now

from berth.testing.nats_cluster import NAMES, NatsCluster
from berth.testing.nats_server import NatsServer
from berth.testing.tcp_proxy import TcpProxy, Way

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

WATCHER, WRITER, SOLVER = "cluster-watcher", "cluster-writer", "placement-solver"
BAR_S = 15.0
"""To catch up, from the end of the partition."""
ROUTES_CONFIG = """
max_payload: 2MB
cluster { name: chaos, host: 127.0.0.1, port: $ROUTE_PORT, routes: [ $ROUTES ], advertise: "127.0.0.1:9" }
"""
"""What servers tell each other of the others leads nowhere, so that nothing goes around the proxies."""
CASES = [
    (WATCHER, "bus", Way.CUT, 5),
    (WRITER, "bus", Way.CUT, 5),
    (SOLVER, "bus", Way.CUT, 5),
    (WATCHER, "bus", Way.HALF_OPEN, 12),
    (WRITER, "bus", Way.HALF_OPEN, 12),
    (SOLVER, "bus", Way.HALF_OPEN, 12),
    (WRITER, "bus", Way.ONLY_IN, 8),
    (SOLVER, "bus", Way.ONLY_OUT, 8),
    (WATCHER, "API", Way.CUT, 5),
    (WRITER, "API", Way.CUT, 9),
    (WATCHER, "API", Way.HALF_OPEN, 12),
    (WRITER, "API", Way.HALF_OPEN, 12),
    (WRITER, "API", Way.ONLY_IN, 9),
    (WRITER, "bus", Way.HALF_OPEN, 60),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def field() -> AsyncIterator[Field]:
    with NatsServer(config=BUS_CONFIG) as bus:
        async with open_field(bus, proxied=(WATCHER, WRITER, SOLVER)) as opened:
            yield opened


@pytest.mark.parametrize(("service", "far", "way", "for_s"), CASES)
async def test_a_service_is_cut_off(field: Field, service: str, far: str, way: Way, for_s: int) -> None:
    proxy = field.ways[service].bus if far == "bus" else field.ways[service].api

    async def fault() -> float:
        proxy.set(way)
        try:
            await asyncio.sleep(for_s)
        finally:
            proxy.set(Way.OPEN)
        return now()

    await run(field, "F5", f"{service} and {far}: {way.value} for {for_s} s", fault, bar_s=BAR_S)


async def test_everything_is_slow(field: Field) -> None:
    proxies = [proxy for ways in field.ways.values() for proxy in (ways.bus, ways.api)]

    async def fault() -> float:
        for proxy in proxies:
            proxy.delay_s = 0.2
        try:
            await asyncio.sleep(8)
        finally:
            for proxy in proxies:
                proxy.delay_s = 0.0
        return now()

    await run(field, "F5", "every way of the three is 200 ms long for 8 s", fault, bar_s=BAR_S)


@pytest.mark.parametrize("way", [Way.CUT, Way.HALF_OPEN])
async def test_one_bus_server_is_cut_off_from_the_others(way: Way) -> None:
    async with AsyncExitStack() as stack:
        proxies = {
            (one, other): await stack.enter_async_context(TcpProxy("127.0.0.1", 9)) for one in NAMES for other in NAMES
        }

        def between(one: str, other: str, port: int) -> int:
            proxies[one, other].target = ("127.0.0.1", port)
            return proxies[one, other].port

        bus = stack.enter_context(NatsCluster(ROUTES_CONFIG, scheme="nats", between=between))
        field = await stack.enter_async_context(open_field(bus))

        async def fault() -> float:
            alone = (await leader(field)).name
            ways = [proxy for ends, proxy in proxies.items() if alone in ends]
            for proxy in ways:
                proxy.set(way)
            try:
                await asyncio.sleep(15)
            finally:
                for proxy in ways:
                    proxy.set(Way.OPEN)
            return now()

        await run(field, "F5", f"the leading bus server and the other two: {way.value} for 15 s", fault, bar_s=BAR_S)
