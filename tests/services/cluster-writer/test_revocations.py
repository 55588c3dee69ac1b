"""Quota groups that give back while nobody waits: each victim leaves for itself, under the group's mark."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.writer.eviction_bench import EvictingApi, EvictionBench
from tests.services.worlds.writer.objects import pod_path

from berth.contracts import names, subjects
from berth.rules.eviction_notes import Mark, mark_note, noted_mark
from berth.rules.preemption import BY_QUOTA, BY_SCHEDULER
from berth.simcluster import SimCluster, SimSettings
from berth.simcluster.store import Path


@pytest.fixture
def bench() -> EvictionBench:
    made = EvictionBench(EvictingApi(SimCluster(SimSettings(kubelet=None)).store))
    for name in ("a", "b"):
        made.pod(name, 0, "n")
    return made


def patched(bench: EvictionBench, name: str, change: dict[str, Any]) -> None:
    bench.api.store.patch(pod_path(name), change, "application/merge-patch+json")


def keep(bench: EvictionBench, name: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    bench.api.store.create(
        Path("policy", "v1", "poddisruptionbudgets", "default"), {"metadata": {"name": "b"}, "spec": spec}
    )
    patched(bench, name, {"metadata": {"labels": {"app": "kept"}}})
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    bench.api.store.patch(pod_path(name)._replace(subresource="status"), {"status": running})
    bench.show()


async def test_its_victims_are_marked_for_the_group_and_evicted(bench: EvictionBench) -> None:
    decision = bench.revoke("a", "b")
    await bench.turn(3)
    assert sorted(bench.events.told) == ["marked a", "marked b", "sent a", "sent b"]
    mark = noted_mark({names.ANNOTATION_EVICTED_FOR: bench.note("a", names.ANNOTATION_EVICTED_FOR)})
    assert mark == Mark("p", f"/{decision.name}", decision.uid, BY_QUOTA)
    assert [each for each in bench.api.sent if each.startswith("evict")] == ["evict a", "evict b"]
    sent = list(bench.api.sent)
    await bench.turn(3)
    assert bench.api.sent == sent
    assert len(bench.executor) == 0


async def test_whom_a_budget_protects_stays_and_the_others_go(bench: EvictionBench) -> None:
    keep(bench, "a")
    bench.revoke("a", "b")
    for _ in range(30):
        await bench.turn()
        bench.now_s += 5.0
    assert not bench.is_leaving("a")
    assert bench.is_leaving("b")


async def test_of_a_gang_nobody_leaves_where_one_stays(bench: EvictionBench) -> None:
    gang = {names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: "2"}
    for name in ("a", "b"):
        patched(bench, name, {"metadata": {"annotations": gang}})
    keep(bench, "a")
    bench.pod("c", 0, "n")
    bench.revoke("a", "b", "c")
    for _ in range(30):
        await bench.turn()
        bench.now_s += 5.0
    assert [bench.is_leaving(name) for name in ("a", "b", "c")] == [False, False, True]


async def test_who_is_marked_for_somebody_else_is_left_to_him(bench: EvictionBench) -> None:
    other = Mark("q", "default/waits", "uid", BY_SCHEDULER)
    patched(bench, "a", {"metadata": {"annotations": mark_note(other)}})
    bench.show()
    bench.revoke("a", "b")
    await bench.turn(1)
    marked = bench.note("a", names.ANNOTATION_EVICTED_FOR)
    assert not marked or noted_mark({names.ANNOTATION_EVICTED_FOR: marked}) == other


async def test_marks_are_taken_back_once_it_stands_no_longer(bench: EvictionBench) -> None:
    """And nobody is evicted under it, though this writer has not read that yet."""
    decision = bench.revoke("a")
    await bench.turn(1)
    assert bench.note("a", names.ANNOTATION_EVICTED_FOR)
    key = subjects.decision_key(1, decision.namespace, decision.name)
    bench.write(key, None, read_too=False)
    await bench.turn(2)
    assert not bench.is_leaving("a")
    bench.cluster.read_ledger(key, b"", True, bench.leader.sequence)
    await bench.turn(2)
    assert not bench.note("a", names.ANNOTATION_EVICTED_FOR)
    assert bench.events.told[-1] == "spared a"


async def test_who_takes_over_goes_on(bench: EvictionBench) -> None:
    decision = bench.revoke("a", "b")
    await bench.turn(1)
    bench.executor = bench.another()
    bench.executor.begin(decision)
    await bench.turn(3)
    assert bench.is_leaving("a")
    assert bench.is_leaving("b")
