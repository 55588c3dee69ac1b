"""kill -9 of services at steps of a pod's way, under load: three at every step, the others where they take part."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.chaos import points
from tests.chaos.experiment import run
from tests.chaos.field import BUS_CONFIG, Field, open_field

from berth.testing.nats_server import NatsServer

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

BAR_S = 10.0
ON_THE_WAY = ("cluster-watcher", "placement-solver", "cluster-writer")
"""Each pod goes through these."""
BESIDE = ("device-inventory", "quota-manager", "reservation-manager", "slo-manager", "node-qos-enforcer", "auditor")
AT = (points.SEEN, points.DECIDED, points.BOUND)
CASES = [
    *((service, step) for step in points.STEPS for service in ON_THE_WAY),
    *((service, AT[number % len(AT)]) for number, service in enumerate((*BESIDE, *BESIDE[1:3]))),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def field() -> AsyncIterator[Field]:
    with NatsServer(config=BUS_CONFIG) as bus:
        async with open_field(bus) as opened:
            yield opened


@pytest.mark.parametrize(("service", "step"), CASES)
async def test_killed(field: Field, service: str, step: str) -> None:
    async def fault() -> float:
        return await points.at(field, step, lambda: field.kill(service))

    await run(field, "F1", f"kill {service} when {step}", fault, bar_s=BAR_S, killed=service)
