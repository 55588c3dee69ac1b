"""A node or a pod that goes after a decision and before it is carried out."""

from __future__ import annotations

import pytest
from tests.e2e.capacity import check_capacity
from tests.e2e.corner import Corner
from tests.e2e.ledger_log import LedgerLog, following
from tests.e2e.objects import note
from tests.e2e.whole import Whole

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]


async def test_a_node_deleted_between_decision_and_bind(whole: Whole, corner: Corner) -> None:
    for name in ("a", "b"):
        await corner.node(name)
    await corner.placed_now()
    async with whole.paused("cluster-writer"):
        await corner.pod("p")
        node = await corner.decided("p")
        await corner.drop_node(node)
    (pod,) = await corner.bound("p")
    assert pod["spec"]["nodeName"] != node
    assert note(pod, names.ANNOTATION_ATTEMPT) == "1"


async def test_a_pod_deleted_between_decision_and_bind_gives_its_capacity_back(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="1")
    await corner.placed_now()
    async with whole.paused("cluster-writer"):
        await corner.pod("p", {"cpu": "1"})
        await corner.decided("p")
        await corner.delete_pod("p")
        await corner.pod("q", {"cpu": "1"})
    await corner.bound("q")


async def test_a_successor_of_the_same_name_is_a_pod_of_its_own(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="1")
    await corner.placed_now()
    log = LedgerLog()
    async with following(whole.bus, log):
        async with whole.paused("cluster-writer"):
            await corner.pod("p", {"cpu": "1"})
            await corner.decided("p")
            first = (await corner.see("p"))["metadata"]["uid"]
            await corner.delete_pod("p")
            await corner.pod("p", {"cpu": "500m"})
        (pod,) = await corner.bound("p")
        second = pod["metadata"]["uid"]
        committed = log.committed()
    assert first != second
    plans = {uid: {d.plan for d in found} for (uid, _), found in committed.items() if uid in (first, second)}
    assert note(pod, names.ANNOTATION_PLAN) in plans[second]
    assert not plans[first] & plans[second]
    await corner.bound(await corner.pod("beside", {"cpu": "500m"}))
    await check_capacity(whole)
