"""Evictions for a node's sake: noted, looked at, evicted as they were looked at; each ends in an answer."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from tests.services.worlds.writer.objects import pod_path

from berth.bus.errors import RetryLater
from berth.cluster_writer.eviction_publisher import EvictionPublisher
from berth.cluster_writer.node_evictions import ELSEWHERE, LATE, NodeEvictions
from berth.contracts.command import EvictionNote, EvictPod
from berth.contracts.errors import InvalidMessage
from berth.kube.answer import Answer, answer_of
from berth.rules.node_evictions.notes import noted_eviction
from berth.runtime.clock import SystemClock

NOW_S = 1_000.0
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


class StoppedClock(SystemClock):
    def now(self):
        return NOW_S


class Kept:
    """Where events and notes go."""

    def __init__(self):
        self.texts, self.subjects = [], []

    def put(self, note):
        self.texts.append(f"{note.reason}: {note.message}")

    def offer(self, subject, *_, **__):
        self.subjects.append(subject.split(".evt.")[1])
        return True


class Bench:
    def __init__(self, api):
        self.api, self.kept = api, Kept()
        self.evictions = NodeEvictions(api, StoppedClock(), EvictionPublisher(self.kept, self.kept))
        self.pod = api.pod("batch", nodeName="n")
        self.command = EvictPod(
            namespace="default",
            name="batch",
            uid=self.pod.uid,
            reason="NodePressure",
            node="n",
            revision=7,
            until=NOW_S + 60,
            note=EvictionNote(
                need="BEMemoryEvict-1",
                feature="BEMemoryEvict",
                accumulator="podUsed",
                release={"memory": 2},
                counts={"memory": 3},
                message="memory is used to 91 %",
            ),
        )

    async def evict(self, **changed):
        return await self.evictions.evict(replace(self.command, **changed))

    @property
    def note(self):
        raw = self.api.raw("batch")
        return noted_eviction(raw["metadata"].get("annotations") or {})

    @property
    def is_leaving(self):
        raw = self.api.raw("batch")
        return raw is None or bool(raw["metadata"].get("deletionTimestamp"))


@pytest.fixture
def bench(api):
    return Bench(api)


def refused(api, status, message):
    body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status})
    api.on("evict", lambda name: answer_of(status, body.encode(), "", None))


async def test_a_pod_carries_its_note_before_it_leaves(bench, api):
    seen = []
    api.on("evict", lambda name: seen.append(bench.note))
    assert await bench.evict() == "done"
    assert bench.is_leaving
    assert (seen[0].node, seen[0].need, seen[0].counts, seen[0].refused) == ("n", "BEMemoryEvict-1", {"memory": 3}, "")
    assert bench.kept.subjects == ["eviction.sent.default.batch"]
    assert bench.kept.texts == ["EvictedByNode: Evicted from node n: memory is used to 91 % (BEMemoryEvict)"]


async def test_a_budget_refuses_and_the_pod_says_so(bench, api):
    refused(api, 429, BUDGET)
    assert await bench.evict() == "refused"
    assert not bench.is_leaving
    assert (bench.note.revision, bench.note.refused) == (7, BUDGET)
    assert bench.kept.subjects == ["eviction.refused.default.batch"]
    # The same request says nothing new; one that was granted later is tried.
    assert await bench.evict() == "overtaken"
    assert not bench.is_leaving
    assert await bench.evict(revision=8) == "done"
    assert bench.is_leaving


async def test_a_policy_refuses_for_good(bench, api):
    refused(api, 403, "policy no-evictions denied it")
    assert await bench.evict() == "refused"
    assert bench.note.refused == "policy no-evictions denied it"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"until": NOW_S - 1}, LATE),
        ({"node": "another"}, ELSEWHERE),
    ],
)
async def test_what_is_overtaken_by_time_or_place_is_refused(bench, changed, why):
    assert await bench.evict(**changed) == "refused"
    assert bench.note.refused == why
    assert not bench.is_leaving


async def test_a_protected_pod_stays(bench, api):
    labels = {"scheduling.koordinator.sh/disable-preemptible": "true"}
    api.store.patch(pod_path("batch"), {"metadata": {"labels": labels}})
    assert await bench.evict() == "refused"
    assert "protected" in bench.note.refused


async def test_a_successor_or_a_pod_that_is_gone_is_left_alone(bench, api):
    assert await bench.evict(uid="another") == "overtaken"
    assert bench.note is None
    api.remove("batch")
    assert await bench.evict() == "overtaken"


async def test_a_pod_that_changes_behind_the_look_is_looked_at_again(bench, api):
    api.on("evict", lambda name: api.touch("batch"))
    with pytest.raises(RetryLater):
        await bench.evict()
    assert not bench.is_leaving
    assert await bench.evict() == "done"


@pytest.mark.parametrize("verb", ["get", "patch", "evict"])
@pytest.mark.parametrize("status", [0, 500, 503])
async def test_what_may_work_later_comes_again(bench, api, verb, status):
    api.on(verb, lambda *args: Answer(status))
    with pytest.raises(RetryLater):
        await bench.evict()
    assert await bench.evict() == "done"


async def test_an_older_request_is_overtaken_by_a_newer_one(bench, api):
    refused(api, 429, BUDGET)
    assert await bench.evict(revision=9) == "refused"
    assert await bench.evict(revision=8) == "overtaken"
    assert bench.note.revision == 9


async def test_a_request_without_a_reason_is_broken(bench):
    with pytest.raises(InvalidMessage, match="note"):
        await bench.evict(note=None)
    assert bench.note is None
