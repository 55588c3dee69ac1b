"""What the API server does not let through: by a policy, by a missing right, by a budget, or not now."""

from __future__ import annotations

import pytest
from tests.services.worlds.writer.eviction_bench import EvictingApi, EvictionBench

from berth.cluster_writer.eviction_requests import HELD_MAX_S, PAUSE_MAX_S
from berth.contracts import names
from berth.kube.answer import Answer, answer_of
from berth.rules.eviction_notes import ANYBODY, plans_let_go, refused_victims
from berth.simcluster import SimCluster, SimSettings

POLICY = "ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: the pod stays"


@pytest.fixture
def bench() -> EvictionBench:
    """A pod waits for two of lower priority."""
    made = EvictionBench(EvictingApi(SimCluster(SimSettings(kubelet=None)).store))
    made.pod("low", 0, "n")
    made.pod("lower", 1, "n")
    made.pod("waits", 9)
    return made


def refused(bench):
    return refused_victims({names.ANNOTATION_REFUSED: bench.note("waits", names.ANNOTATION_REFUSED)}, bench.now_s)


def given_up(bench):
    return [each.partition(": ")[2] for each in bench.events.told if each.startswith("given up")]


def assert_nobody_died(bench):
    assert not any(each.startswith("delete") for each in bench.api.sent)
    for name in ("low", "lower"):
        assert not bench.is_leaving(name)
        assert bench.note(name, names.ANNOTATION_EVICTED_FOR) == ""
        conditions = bench.api.raw(name)["status"].get("conditions", [])
        assert all(each["status"] == "False" for each in conditions if each["type"] == "DisruptionTarget")


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_a_deletion_that_a_policy_forbids_ends_the_nomination_before_anybody_dies(bench, status):
    bench.api.refuse("delete lower", status, POLICY)
    bench.nominate("waits", "low", "lower")
    await bench.turn(5)
    assert sorted(bench.events.told[:2]) == ["marked low", "marked lower"]
    assert bench.events.told[2] == "refused lower"
    assert given_up(bench) == [f"default/lower may not be evicted: {POLICY}"]
    assert bench.attempt("waits") == "1"
    assert plans_let_go({names.ANNOTATION_LET_GO: bench.note("waits", names.ANNOTATION_LET_GO)}) == ("p",)
    assert bench.note("waits", names.ANNOTATION_NOMINATED) == ""
    assert not bench.api.raw("waits")["status"].get("nominatedNodeName")
    assert refused(bench) == {bench.api.seen("lower").uid}
    bench.now_s += PAUSE_MAX_S
    await bench.turn(2)
    assert_nobody_died(bench)


async def test_everybody_is_asked_about_and_all_who_were_refused_are_remembered(bench):
    for name in ("low", "lower"):
        bench.api.refuse(f"delete {name}", 403, POLICY)
    bench.nominate("waits", "low", "lower")
    await bench.turn(4)
    assert refused(bench) == {bench.api.seen(name).uid for name in ("low", "lower")}


@pytest.mark.parametrize("request_", ["patch low", "patch status low"])
@pytest.mark.parametrize("status", [400, 403, 422])
async def test_so_does_a_mark_or_a_condition_that_is_refused(bench, request_, status):
    bench.nominate("waits", "low", "lower")
    await bench.turn()
    bench.api.refuse(request_, status, POLICY)
    await bench.turn(3)
    assert given_up(bench) == [f"default/low may not be evicted: {POLICY}"]
    assert refused(bench) == {bench.api.seen("low").uid}
    bench.api.policies.clear()
    bench.now_s += PAUSE_MAX_S
    await bench.turn(2)
    assert_nobody_died(bench)


@pytest.mark.parametrize("verb", ["patch", "patch status"])
async def test_so_does_a_note_that_is_refused(bench, verb):
    body = b'{"kind":"Status","code":422,"message":"no such notes"}'
    bench.api.on(verb, lambda name, patch: answer_of(422, body, "", None))
    bench.nominate("waits", "low")
    await bench.turn(3)
    assert given_up(bench) == ["its nomination cannot be noted: no such notes"]
    assert refused(bench) == set()
    assert "patch low" not in bench.api.sent


async def test_a_beneficiary_that_nobody_may_patch_is_asked_for_less_and_less_often(bench):
    bench.api.refuse("patch waits", 403, POLICY)
    bench.nominate("waits", "low")
    for _ in range(1000):
        await bench.turn()
        bench.now_s += 0.5
    assert 5 < bench.api.sent.count("patch waits") < 100
    assert not bench.is_leaving("low")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(0, reason="Timeout"),
        answer_of(503, b'{"kind":"Status","message":"down"}', "", None),
        answer_of(429, b"too many requests", "", "1"),
        answer_of(403, b"<html>a proxy", "", None),
        answer_of(404, b"<html>a proxy", "", None),
    ],
    ids=["none", "503", "429", "a page", "another page"],
)
@pytest.mark.parametrize("request_", ["patch low", "patch status low", "ask low", "delete low"])
async def test_what_nobody_knows_is_asked_again_with_pauses(bench, answer, request_):
    bench.api.policies[request_] = answer
    bench.nominate("waits", "low")
    for _ in range(400):
        await bench.turn()
        bench.now_s += 0.5
    assert 5 < bench.api.sent.count(request_) < 60
    assert not bench.is_leaving("low")
    assert given_up(bench) == []
    del bench.api.policies[request_]
    bench.now_s += 2 * PAUSE_MAX_S
    await bench.turn(3)
    assert bench.is_leaving("low")


async def test_a_budget_is_waited_for_but_not_for_ever(bench):
    bench.api.refuse("delete low", 429, "the disruption budget keep needs 1")
    bench.nominate("waits", "low", "lower")
    while bench.now_s < 1_700_000_000.0 + HELD_MAX_S - 1:
        await bench.turn()
        bench.now_s += 0.5
    assert given_up(bench) == []
    for _ in range(200):
        await bench.turn()
        bench.now_s += 0.5
    assert given_up(bench) == ["default/low may not be evicted: the disruption budget keep needs 1"]
    assert_nobody_died(bench)


async def test_a_right_that_is_missing_is_named_and_nobody_is_chosen_for_a_while(bench):
    user = "system:serviceaccount:berth-system:cluster-writer"
    message = f'pods "low" is forbidden: User "{user}" cannot delete resource "pods" in API group ""'
    bench.api.refuse("delete low", 403, message)
    bench.nominate("waits", "low", "lower")
    await bench.turn(4)
    why = "the right to delete pods is missing (k8s/components/preemption)"
    assert given_up(bench) == [f"default/low may not be evicted: {why}"]
    assert refused(bench) == {ANYBODY}
    assert "ask lower" not in bench.api.sent
