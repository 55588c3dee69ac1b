"""The API server throttles, fails, is slow, closes watches, forgets its past, answers conflict, loses answers, is away.

All but closed watches, the forgotten past and the outage strike Berth alone: the load goes on, so there is always work
while Berth is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.chaos.experiment import run
from tests.chaos.field import BUS_CONFIG, Field, open_field
from tests.chaos.test_bus import now

from berth.testing.nats_server import NatsServer

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

BAR_S = 15.0
FOR_S = 8.0
RELISTS_MAX = 5
"""Of one kind within a minute: more is a hot loop."""
BERTH = {"agent_prefix": "berth-"}
RULES: dict[str, list[dict[str, Any]]] = {
    "429 to half of the requests": [{"kind": "error", "status": 429, "retry_after_s": 1, "share": 0.5, **BERTH}],
    "429 to every bind": [{"kind": "error", "status": 429, "verbs": ["bind"], **BERTH}],
    "500 to a third of the requests": [{"kind": "error", "status": 500, "share": 0.33, **BERTH}],
    "every bind takes 5 s": [{"kind": "delay", "delay_s": 5, "verbs": ["bind"], **BERTH}],
    "one bind in ten takes 30 s": [{"kind": "delay", "delay_s": 30, "verbs": ["bind"], "share": 0.1, **BERTH}],
    "the Lease cannot be renewed (500)": [{"kind": "error", "status": 500, "resources": ["leases"], **BERTH}],
    "409 to half of the binds": [{"kind": "error", "status": 409, "verbs": ["bind"], "share": 0.5, **BERTH}],
    "half of the requests lose their answer": [
        {"kind": "drop-after", "verbs": ["bind", "patch", "create", "update"], "share": 0.5, **BERTH}
    ],
    "half of the connections break": [{"kind": "drop-before", "share": 0.5, **BERTH}],
    "lists and watches answer 500": [{"kind": "error", "status": 500, "verbs": ["list", "watch"], **BERTH}],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def field() -> AsyncIterator[Field]:
    with NatsServer(config=BUS_CONFIG) as bus:
        async with open_field(bus) as opened:
            yield opened


@pytest.mark.parametrize("name", RULES)
async def test_refused(field: Field, name: str) -> None:
    async def fault() -> float:
        await field.faults(*RULES[name])
        if RULES[name][0].get("verbs") == ["list", "watch"]:
            await field.whole.call("POST", "/sim/watches/close")
        await asyncio.sleep(FOR_S)
        fired = (await field.whole.call("GET", "/sim/faults"))["fired"]
        await field.faults()
        assert all(fired), "the fault has struck"
        return now()

    await run(field, "F7", f"{name}, for {FOR_S:g} s", fault, bar_s=BAR_S)


async def test_watches_are_closed(field: Field) -> None:
    async def fault() -> float:
        for _ in range(4):
            await field.whole.call("POST", "/sim/watches/close")
            await asyncio.sleep(FOR_S / 4)
        return now()

    await run(field, "F7", "all watches are closed, four times", fault, bar_s=BAR_S)


async def test_the_past_is_forgotten(field: Field) -> None:
    """410 Gone to every watch that is taken up again: everything is listed anew, but not again and again."""

    async def fault() -> float:
        mark = now()
        await field.whole.call("POST", "/sim/history/compact")
        await field.whole.call("POST", "/sim/watches/close")
        return mark

    before = await _relists(field)
    await run(field, "F7", "410: the history is gone, watches closed", fault, bar_s=BAR_S)
    assert await _relists(field) - before <= RELISTS_MAX


async def _relists(field: Field) -> float:
    """How often cluster-watcher has listed pods."""
    return await field.whole.counted("cluster-watcher", 'berth_kube_lists_total{resource="pods"')


async def test_the_server_stands_still(field: Field) -> None:
    """For us as well: the load stands still with it."""

    async def fault() -> float:
        async with field.whole.cluster.down():
            await asyncio.sleep(FOR_S)
        return now()

    await run(field, "F7", f"the API server stands still for {FOR_S:g} s", fault, bar_s=BAR_S)
