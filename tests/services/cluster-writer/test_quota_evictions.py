"""Who leaves for the sake of quota leaves through the API server's eviction, which disruption budgets may stop."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.writer.eviction_bench import EvictingApi, EvictionBench
from tests.services.worlds.writer.objects import pod_path

from berth.contracts import names
from berth.rules.eviction_notes import Mark, noted_mark, refused_victims
from berth.rules.preemption import BY_API, BY_QUOTA, leaves_by_itself
from berth.simcluster import SimCluster, SimSettings
from berth.simcluster.store import Path


@pytest.fixture
def bench() -> EvictionBench:
    """A pod waits for one of higher priority, whose group has more than is its own."""
    made = EvictionBench(EvictingApi(SimCluster(SimSettings(kubelet=None)).store))
    made.pod("lent", 9, "n")
    made.pod("waits", 0)
    return made


def keep(bench: EvictionBench) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    bench.api.store.create(
        Path("policy", "v1", "poddisruptionbudgets", "default"), {"metadata": {"name": "b"}, "spec": spec}
    )


def patched(bench: EvictionBench, change: dict[str, Any]) -> None:
    bench.api.store.patch(pod_path("lent"), change, "application/merge-patch+json")


async def test_it_is_evicted_whatever_its_priority(bench: EvictionBench) -> None:
    decision = bench.nominate("waits", "lent", reason=BY_QUOTA)
    await bench.turn(3)
    assert bench.events.told == ["marked lent", "sent lent"]
    assert bench.api.sent[-2:] == ["ask lent", "evict lent"]
    mark = noted_mark({names.ANNOTATION_EVICTED_FOR: bench.note("lent", names.ANNOTATION_EVICTED_FOR)})
    assert mark == Mark("p", "default/waits", decision.uid, BY_QUOTA)
    assert bench.is_leaving("lent")
    pod = bench.api.seen("lent")
    assert pod.disruption == BY_API, "the API server has put its own reason in the place of ours"
    assert not leaves_by_itself(pod)
    sent = list(bench.api.sent)
    await bench.turn(3)
    assert bench.api.sent == sent, "nothing is left to do but wait"


async def test_a_changed_pod_is_not_evicted(bench: EvictionBench) -> None:
    bench.nominate("waits", "lent", reason=BY_QUOTA)
    await bench.turn(2)
    patched(bench, {"metadata": {"labels": {"quota.scheduling.koordinator.sh/preemptible": "false"}}})
    await bench.executor.turn()
    assert not bench.is_leaving("lent")


async def test_a_budget_stops_it_and_the_plan_is_given_up_in_the_end(bench: EvictionBench) -> None:
    keep(bench)
    patched(bench, {"metadata": {"labels": {"app": "kept"}}})
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    bench.api.store.patch(pod_path("lent")._replace(subresource="status"), {"status": running})
    bench.show()
    bench.nominate("waits", "lent", reason=BY_QUOTA)
    for _ in range(40):
        await bench.turn()
        bench.now_s += 5.0
    assert not bench.is_leaving("lent")
    assert [each for each in bench.events.told if each.startswith("given up")]
    uid = bench.api.seen("lent").uid
    assert uid in refused_victims(
        {names.ANNOTATION_REFUSED: bench.note("waits", names.ANNOTATION_REFUSED)}, bench.now_s
    )
