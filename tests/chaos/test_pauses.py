"""Processes that stand still for longer than a lease lasts, and go on: leaders beside a stand-by, one of two solvers,
managers, the bus.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.chaos.experiment import run
from tests.chaos.field import BUS_CONFIG, Field, open_field
from tests.chaos.test_bus import now

from berth.testing.nats_server import NatsServer

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

TWICE = ("cluster-writer", "cluster-watcher", "placement-solver")
BAR_S = 10.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def field() -> AsyncIterator[Field]:
    with NatsServer(config=BUS_CONFIG) as bus:
        async with open_field(bus, replicas=dict.fromkeys(TWICE, 2)) as opened:
            yield opened


@pytest.mark.parametrize(("service", "for_s"), [("cluster-writer", 9), ("cluster-writer", 30), ("cluster-watcher", 9)])
async def test_the_active_one_stands_still(field: Field, service: str, for_s: int) -> None:
    """Its stand-by takes over meanwhile; recovery counts from when it wakes up beside its successor."""

    async def fault() -> float:
        name = await field.active(service)
        async with field.whole.paused(name):
            await asyncio.sleep(for_s)
            assert await field.active(service) != name, "the stand-by has taken over"
        return now()

    await run(field, "F6", f"the active {service} stands still for {for_s} s", fault, bar_s=BAR_S)


async def test_one_of_two_solvers_stands_still(field: Field) -> None:
    async def fault() -> float:
        async with field.whole.paused("placement-solver"):
            await asyncio.sleep(9)
        return now()

    await run(field, "F6", "one of two placement-solvers stands still for 9 s", fault, bar_s=BAR_S)


@pytest.mark.parametrize("service", ["reservation-manager", "quota-manager", "device-inventory"])
async def test_a_manager_stands_still(field: Field, service: str) -> None:
    async def fault() -> float:
        async with field.whole.paused(service):
            await asyncio.sleep(9)
        return now()

    await run(field, "F6", f"{service} stands still for 9 s", fault, bar_s=BAR_S)


async def test_the_bus_stands_still(field: Field) -> None:
    async def fault() -> float:
        await asyncio.to_thread(field.server.pause)
        try:
            await asyncio.sleep(9)
        finally:
            field.server.resume()
        return now()

    await run(field, "F6", "the bus stands still for 9 s", fault, bar_s=15.0)
