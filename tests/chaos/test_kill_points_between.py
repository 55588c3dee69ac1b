"""kill -9 of the writer and of solvers, and the writer's way to the API server cut off, in the middle of evictions and
before binds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.chaos import crowded, points
from tests.chaos.experiment import run
from tests.chaos.field import BUS_CONFIG, Field, open_field
from tests.chaos.test_bus import now

from berth.testing.nats_server import NatsServer
from berth.testing.tcp_proxy import Way

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

BAR_S = 10.0
WRITER, SOLVER = "cluster-writer", "placement-solver"
CUT_S = 3
KILLED = [
    *((WRITER, step) for step in points.BETWEEN),
    *((SOLVER, step) for step in (points.NOMINATED, points.MARKED, points.STEP_ASKED)),
]
CUT_OFF = (points.NOTED, points.MARKED, points.EVICTION_ASKED, points.STEP_ASKED)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def field() -> AsyncIterator[Field]:
    with NatsServer(config=BUS_CONFIG) as bus:
        async with open_field(bus, proxied=(WRITER,), mix=crowded.CrowdedMix, objects=crowded.objects()) as opened:
            yield opened


@pytest.mark.parametrize(("service", "step"), KILLED)
async def test_killed(field: Field, service: str, step: str) -> None:
    async def fault() -> float:
        return await points.at(field, step, lambda: field.kill(service))

    await run(field, "F1", f"kill {service} when {step}", fault, bar_s=BAR_S, killed=service)


@pytest.mark.parametrize("step", CUT_OFF)
async def test_the_writer_is_cut_off_from_the_api_server(field: Field, step: str) -> None:
    proxy = field.ways[WRITER].api

    async def fault() -> float:
        await points.at(field, step, lambda: proxy.set(Way.CUT))
        try:
            await asyncio.sleep(CUT_S)
        finally:
            proxy.set(Way.OPEN)
        return now()

    await run(field, "F5", f"{WRITER} and API: cut for {CUT_S} s when {step}", fault, bar_s=BAR_S + CUT_S)
