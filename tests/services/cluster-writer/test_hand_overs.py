"""A placeholder that hands over says to whom before it leaves, and says it no longer when it is spared."""

from __future__ import annotations

import json

import pytest
from tests.services.worlds.writer.eviction_bench import EvictingApi, EvictionBench
from tests.services.worlds.writer.objects import pod_path

from berth.contracts import names
from berth.rules.preemption import BY_HAND_OVER
from berth.simcluster import SimCluster, SimSettings


@pytest.fixture
def bench() -> EvictionBench:
    """A placeholder of higher priority than its user."""
    made = EvictionBench(EvictingApi(SimCluster(SimSettings(kubelet=None)).store))
    made.pod("holds", 9, "n")
    made.pod("waits", 0)
    return made


async def test_it_names_its_user_and_leaves(bench: EvictionBench) -> None:
    decision = bench.nominate("waits", "holds", reason=BY_HAND_OVER)
    await bench.turn(3)
    assert bench.events.told == ["marked holds", "sent holds"]
    said = json.loads(bench.note("holds", names.ANNOTATION_RESERVATION_CURRENT_OWNER))
    assert (said["namespace"], said["name"], said["uid"]) == ("default", "waits", decision.uid)
    assert bench.is_leaving("holds")


async def test_it_names_nobody_any_more_when_its_user_is_gone(bench: EvictionBench) -> None:
    bench.nominate("waits", "holds", reason=BY_HAND_OVER)
    await bench.turn(2)
    assert bench.note("holds", names.ANNOTATION_RESERVATION_CURRENT_OWNER)
    bench.api.store.delete(pod_path("waits"), grace="0")
    bench.show()
    await bench.turn(4)
    assert not bench.note("holds", names.ANNOTATION_EVICTED_FOR)
    assert not bench.note("holds", names.ANNOTATION_RESERVATION_CURRENT_OWNER)
    assert not bench.is_leaving("holds")
