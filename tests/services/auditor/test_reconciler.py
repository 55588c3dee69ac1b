"""Look after look: what lasts is told once, what is gone is told once, and lag is never taken for a difference."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.libs.invariants.story import Good, Story
from tests.services.auditor.looks import event_of, ledger_of, lists_of, look, reconciler, result, told

from berth.auditor.reconciler import Reconciler
from berth.contracts import names
from berth.contracts.subjects import PREFIX

CARD = (names.GPU_CORE, names.GPU_MEMORY_RATIO)


def bound_by_a_foreign_hand(story: Story) -> None:
    story.place("a", minors={0: 100})
    story.bind("a")
    story.pod("theirs", uid="uid-theirs")
    note = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}'
    change = {
        "metadata": {"annotations": {names.ANNOTATION_DEVICE_ALLOCATED: note}},
        "spec": {
            "nodeName": "n1",
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "resources": {"requests": dict.fromkeys(CARD, "100")}}],
        },
    }
    story.change("pods", "theirs", change)


def decided_twice(story: Story) -> None:
    story.place("a", minors={0: 60})
    story.place("b", minors={0: 60})


def quota_exceeded(story: Story) -> None:
    story.quota("blue", "1")
    for name in ("a", "b"):
        story.place(name, quota="/blue")
        story.bind(name)


def bound_without_a_plan(story: Story) -> None:
    story.change("pods", "a", {"spec": {"nodeName": "n1"}})


def node_overfull(story: Story) -> None:
    story.pod("large", cpu="8")
    for name in ("a", "large"):
        story.place(name)
        story.bind(name)


AT_ONCE: list[tuple[str, Callable[[Story], None]]] = [
    ("I1", bound_by_a_foreign_hand),
    ("I1", decided_twice),
    ("I1b", node_overfull),
    ("I2", quota_exceeded),
    ("I5", bound_without_a_plan),
]


def stage() -> Story:
    story = Story()
    for name in ("n1", "n2"):
        story.node(name)
    for name in ("a", "b"):
        story.pod(name)
    return story


@pytest.mark.parametrize(("promise", "fault"), AT_ONCE, ids=lambda each: getattr(each, "__name__", each))
def test_a_difference_is_told_once_and_once_when_it_is_gone(promise: str, fault: Callable[[Story], None]) -> None:
    story, at = stage(), reconciler(settle_s=1e9)
    assert look(at, story) == []
    assert not at.wants_another
    fault(story)
    assert look(at, story) == []
    assert at.wants_another, "one look is a suspicion"
    story.wait(3)
    first = look(at, story)
    assert first
    assert set(first) == {f"found {promise}"}
    assert not at.wants_another
    for _ in range(3):
        story.wait(30)
        assert look(at, story) == []
    for name in list(story.objects["pods"]):
        story.delete("pods", name)
    story.decisions.clear()
    story.stored = story.stored[:1]
    assert look(at, story) == [each.replace("found", "gone") for each in first]
    assert look(at, story) == []


def test_the_event_says_what_and_since_when() -> None:
    story, at = stage(), reconciler()
    bound_by_a_foreign_hand(story)
    story.wait(100)
    look(at, story)
    story.wait(3)
    (found,) = result(at.looking(lists_of(story), ledger_of(story), story.now_s))
    event = event_of(found)
    assert (event.promise, event.title, event.lasts) == ("I1", "device-given-once", True)
    assert (event.since_ms, event.at_ms) == (100_000, 103_000)
    assert event.subject == "node n1, gpu 0"
    assert "default/a 100, default/theirs 100" in event.evidence
    assert found.subject == f"{PREFIX}.evt.audit.reported.found.I1.{found.id.split('.')[3]}"
    story.delete("pods", "theirs")
    (gone,) = result(at.looking(lists_of(story), ledger_of(story), story.now_s))
    assert gone.subject == f"{PREFIX}.evt.audit.reported.gone.I1.{found.id.split('.')[3]}"
    assert not event_of(gone).lasts
    assert gone.id != found.id


def test_a_holder_that_has_just_left_is_not_held_against_its_successor() -> None:
    """The lists show the former holder, the ledger the decision that came after it; and again with the next pair."""
    story, at = stage(), reconciler()
    story.place("a", minors={0: 100})
    story.bind("a")
    lists = lists_of(story)
    story.delete("pods", "a")
    story.place("b", minors={0: 100})
    assert told(result(at.looking(lists, ledger_of(story), 0.0))) == []
    story.bind("b")
    lists = lists_of(story)
    story.delete("pods", "b")
    story.pod("c")
    lists.pods.append(msgspec.convert(story.objects["pods"]["c"], type(lists.pods[0])))
    story.place("c", minors={0: 100})
    assert result(at.looking(lists, ledger_of(story), 3.0)) == []
    assert at.wants_another


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1 << 30))
def test_a_good_history_seen_with_any_lag_has_no_difference(seed: int) -> None:
    good, at = Good(seed), reconciler(settle_s=1e9)
    chance = random.Random(seed)
    for _ in range(12):
        story = good.run(chance.randrange(12))
        lists = lists_of(story)
        good.run(chance.randrange(6))
        assert result(at.looking(lists, ledger_of(story), story.now_s)) == []


# --- what takes a while -----------------------------------------------------------------------------------------------


def test_a_decision_whose_pod_vanished_is_left_behind() -> None:
    story, at = stage(), reconciler(settle_s=60)
    story.place("a")
    story.bind("a")
    story.delete("pods", "a")
    assert look(at, story) == []
    assert not at.wants_another, "tidying takes a moment"
    story.wait(59)
    assert look(at, story) == []
    story.wait(2)
    assert look(at, story) == ["found I4"]
    story.tidy("a")
    assert look(at, story) == ["gone I4"]


def test_a_decision_that_nobody_carries_out() -> None:
    story, at = stage(), reconciler(settle_s=60)
    story.place("a")
    look(at, story)
    story.wait(61)
    assert look(at, story) == ["found I4"]
    story.bind("a")
    assert look(at, story) == ["gone I4"]


def gang(story: Story, *bound: str) -> None:
    for name in ("g1", "g2", "g3"):
        story.pod(name, gang="g", minimum=3)
    story.gang("g1", "g2", "g3")
    for name in bound:
        story.bind(name)


def test_a_gang_that_stays_half_bound() -> None:
    story, at = stage(), reconciler(settle_s=60)
    look(at, story)
    gang(story, "g1")
    look(at, story)
    story.wait(61)
    assert "found I3" in look(at, story)


@pytest.mark.parametrize("happens", ["deleted", "withdrawn", "before"])
def test_a_gang_that_may_be_half_there(happens: str) -> None:
    story, at = stage(), reconciler(settle_s=60)
    if happens != "before":
        look(at, story)
    gang(story, *(("g1", "g2") if happens != "deleted" else ("g1", "g2", "g3")))
    look(at, story)
    if happens == "deleted":
        story.delete("pods", "g3")
        story.tidy("g3")
    elif happens == "withdrawn":
        story.withdraw("g3")
    for _ in range(3):
        story.wait(61)
        assert "found I3" not in look(at, story)


# --- node reports -----------------------------------------------------------------------------------------------------


JUNE = "2026-06-01T00:00:00Z"


def report(node: str, *uses: tuple[str, int], at: str = JUNE) -> dict[str, object]:
    told_ = [
        {"namespace": "default", "name": name, "podUsage": {"devices": [{"type": "gpu", "minor": minor}]}}
        for name, minor in uses
    ]
    return {"metadata": {"name": node}, "status": {"updateTime": at, "podsMetric": told_}}


def two_on_gpus() -> tuple[Story, Reconciler]:
    story, at = stage(), reconciler()
    for name, minor in (("a", 0), ("b", 1)):
        story.change("pods", name, {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}})
        story.place(name, minors={minor: 100})
        story.bind(name)
    return story, at


def test_a_node_reports_a_device_in_use_twice() -> None:
    story, at = two_on_gpus()
    assert look(at, story, [report("n1", ("a", 0), ("b", 1))]) == []
    look(at, story, [report("n1", ("a", 0), ("b", 0))])
    assert look(at, story, [report("n1", ("a", 0), ("b", 0))]) == ["found I1c", "found I1d"]
    assert look(at, story, [report("n1", ("a", 0), ("b", 1))]) == ["gone I1c", "gone I1d"]


@pytest.mark.parametrize(
    "told_",
    [
        report("n1", ("b", 0), at="2025-12-01T00:00:00Z"),  # older than the pod: its predecessor's
        report("n2", ("b", 0)),  # another node than the pod's
        report("n1", ("nobody", 0)),
        {"metadata": {"name": "n1"}, "status": {"updateTime": 5, "podsMetric": [{"name": "b"}]}},
        {
            "metadata": {"name": "n1"},
            "status": {"updateTime": "2026-06-01T00:00:00Z", "podsMetric": [3, {"podUsage": 1}]},
        },
        {"metadata": {"name": "n1"}, "status": {"updateTime": "2026-06-01T00:00:00", "podsMetric": []}},
        {"metadata": {"name": "n1"}},
    ],
)
def test_reports_that_prove_nothing(told_: dict[str, object]) -> None:
    story, at = two_on_gpus()
    assert look(at, story, [told_]) + look(at, story, [told_]) == []


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_differences_are_bounded_and_the_rest_is_counted() -> None:
    story, at = stage(), reconciler()
    for number in range(1005):
        story.pod(f"p{number}", cpu="1m")
        story.change("pods", f"p{number}", {"spec": {"nodeName": "n1"}})
    story.node("n1", cpu="8", pods="2000")
    look(at, story)
    look(at, story)
    assert len(at.book.known) == 1000
    assert at.book.beyond == 5
    assert not at.wants_another, "another look makes nothing more certain"


def test_limits_count_at_their_most_generous() -> None:
    story, at = stage(), reconciler()
    story.quota("blue", "2")
    for name in ("a", "b"):
        story.place(name, quota="/blue")
        story.bind(name)
    assert look(at, story) == []
    story.quota("blue", "1")
    story.node("n1", cpu="1")
    assert look(at, story) == []
    assert look(at, story) == ["found I1b", "found I2"]


def test_a_note_that_no_request_explains_is_no_difference() -> None:
    """Whoever may create pods can bind them by hand, with any note."""
    story, at = stage(), reconciler(settle_s=0)
    story.place("a", minors={0: 100})
    story.bind("a")
    story.pod("theirs", uid="uid-theirs")
    note = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}'
    notes = {"annotations": {names.ANNOTATION_DEVICE_ALLOCATED: note}}
    story.change("pods", "theirs", {"metadata": notes, "spec": {"nodeName": "n1", "schedulerName": "other"}})
    story.wait(100)
    look(at, story)
    story.wait(3)
    assert look(at, story) == []
