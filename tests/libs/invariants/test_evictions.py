"""Evictions as an observer judges them (I11): who is named, who is lower, who gets what was left, and what remains."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.libs.invariants.stage import stranger
from tests.libs.invariants.story import Story

from berth.contracts import names
from berth.contracts.ledger import Allocation, Decision, GangRef, Victim
from berth.invariants import Excuse
from berth.rules.eviction_notes import Mark, let_go_note, mark_note
from berth.rules.preemption import BY_SCHEDULER
from berth.rules.reservation_window import WindowNote

MOMENT = "2026-01-01T00:00:00Z"
END = "2026-01-01T01:00:00Z"


@pytest.fixture
def story() -> Story:
    """A node of 8 cores which `low` fills, and `high`, which waits for it."""
    made = Story()
    made.node("n1")
    made.pod("low", "8")
    made.pod("high", "8")
    made.change("pods", "high", {"spec": {"priority": 9}})
    made.place("low")
    made.bind("low")
    return made


def nominate(story: Story, *victims: str, name: str = "high") -> str:
    listed = [
        Victim(namespace="default", name=each, uid=f"uid-{each}", version=story.version, node="n1") for each in victims
    ]
    return story.place(name, nominates=True, victims=listed)


def mark(story: Story, victim: str, plan: str, beneficiary: str = "high") -> None:
    note = mark_note(Mark(plan, f"default/{beneficiary}", f"uid-{beneficiary}", BY_SCHEDULER))
    story.change("pods", victim, {"metadata": {"annotations": note}})


def evict(story: Story, victim: str, plan: str, beneficiary: str = "high") -> None:
    """Mark, condition, deletion: the pod is leaving."""
    mark(story, victim, plan, beneficiary)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": BY_SCHEDULER}
    story.change("pods", victim, {"status": {"conditions": [condition]}})
    story.change("pods", victim, {"metadata": {"deletionTimestamp": MOMENT}})


def test_an_eviction_by_the_rules_breaks_nothing(story: Story) -> None:
    plan = nominate(story, "low")
    evict(story, "low", plan)
    story.delete("pods", "low")
    story.place("high")
    story.bind("high")
    assert story.broken == []
    assert story.finish(quiet=True) == []


def test_a_victim_that_no_plan_names(story: Story) -> None:
    plan = nominate(story)
    evict(story, "low", plan)
    assert story.broken == ["I11"]


def test_a_victim_for_a_pod_that_has_been_gone_for_a_while(story: Story) -> None:
    plan = nominate(story, "low")
    story.delete("pods", "high")
    story.wait(60.0)
    evict(story, "low", plan)
    assert story.broken == ["I11"]


def test_a_deletion_that_is_on_its_way_while_its_beneficiary_goes_is_nobodys_fault(story: Story) -> None:
    plan = nominate(story, "low")
    story.delete("pods", "high")
    story.wait(0.5)
    evict(story, "low", plan)
    assert story.broken == []


def test_a_victim_for_a_pod_that_was_withdrawn_a_while_ago(story: Story) -> None:
    plan = nominate(story, "low")
    story.withdraw("high")
    story.wait(60.0)
    evict(story, "low", plan)
    assert story.broken == ["I11"]


def test_a_deletion_by_anybody_else_is_not_judged(story: Story) -> None:
    mark(story, "low", "unknown")
    story.change("pods", "low", {"metadata": {"deletionTimestamp": MOMENT}})
    assert story.broken == []


def test_a_victim_of_equal_priority(story: Story) -> None:
    story.change("pods", "low", {"spec": {"priority": 9}})
    plan = nominate(story, "low")
    evict(story, "low", plan)
    assert story.broken == ["I11b"]


def test_what_was_left_for_a_pod_is_not_for_an_equal_one(story: Story) -> None:
    story.pod("thief", "4")
    story.change("pods", "thief", {"spec": {"priority": 9}})
    plan = nominate(story, "low")
    evict(story, "low", plan)
    story.delete("pods", "low")
    story.place("thief")
    assert story.broken == ["I11d"]


@pytest.mark.parametrize(("waited_s", "broken"), [(9.0, []), (11.0, ["I11d"])])
def test_a_pod_of_another_scheduler_counts_for_it_once_everybody_can_have_seen_it(
    waited_s: float, broken: list[str]
) -> None:
    story = Story()
    story.node("n1")
    for name, cpu in (("low", "8"), ("high", "4"), ("equal", "4")):
        story.pod(name, cpu)
        story.change("pods", name, {"spec": {"priority": 0 if name == "low" else 9}})
    story.place("low")
    story.bind("low")
    plan = nominate(story, "low")
    evict(story, "low", plan)
    story.delete("pods", "low")
    stranger(story, "2")
    story.wait(waited_s)
    story.place("equal")
    assert [law for law in story.broken if law == "I11d"] == broken
    assert story.observer.verdicts.excuses["I11d", Excuse.STRANGER] == (0 if broken else 1)


def test_a_higher_pod_may_take_what_was_left(story: Story) -> None:
    story.pod("top", "4")
    story.change("pods", "top", {"spec": {"priority": 20}})
    plan = nominate(story, "low")
    evict(story, "low", plan)
    story.delete("pods", "low")
    story.place("top")
    assert story.broken == []


def test_once_a_nomination_is_given_up_anybody_may_take_it(story: Story) -> None:
    story.pod("later", "4")
    plan = nominate(story, "low")
    evict(story, "low", plan)
    story.delete("pods", "low")
    story.withdraw("high")
    story.place("later")
    assert story.broken == []


@pytest.mark.parametrize(
    ("label", "value"),
    [(names.LABEL_QUOTA_PREEMPTIBLE, "false"), (names.LABEL_DISABLE_PREEMPTIBLE, "true")],
)
def test_a_protected_pod_stays(story: Story, label: str, value: str) -> None:
    plan = nominate(story, "low")
    story.change("pods", "low", {"metadata": {"labels": {label: value}}})
    assert story.broken == []
    evict(story, "low", plan)
    assert story.broken == ["I11e"]


def test_a_mirror_pod_stays(story: Story) -> None:
    story.change("pods", "low", {"metadata": {"annotations": {names.ANNOTATION_MIRROR: "file"}}})
    evict(story, "low", nominate(story, "low"))
    assert story.broken == ["I11e"]


def test_a_label_of_another_value_protects_nobody(story: Story) -> None:
    story.change("pods", "low", {"metadata": {"labels": {names.LABEL_QUOTA_PREEMPTIBLE: "true"}}})
    evict(story, "low", nominate(story, "low"))
    assert story.broken == []


def test_who_stays_beside_victims_is_judged(story: Story) -> None:
    story.change("pods", "low", {"metadata": {"labels": {names.LABEL_QUOTA_PREEMPTIBLE: "false"}}})
    nominate(story)
    assert story.observer.verdicts.judgements["I11e"] == 1


def gang(story: Story, size: int, needed: int) -> list[str]:
    """A strict gang on n2, of low priority."""
    story.node("n2")
    members = [f"g{number}" for number in range(size)]
    for name in members:
        story.pod(name, gang="g", minimum=needed)
    story.gang(*members, node="n2")
    for name in members:
        story.bind(name)
    return members


def test_a_strict_gang_keeps_the_members_that_it_needs(story: Story) -> None:
    gang(story, 2, 2)
    evict(story, "g0", nominate(story, "g0"))
    assert "I11f" in story.broken


def test_a_strict_gang_leaves_whole(story: Story) -> None:
    members = gang(story, 2, 2)
    plan = nominate(story, *members)
    for name in members:
        evict(story, name, plan)
    assert "I11f" not in story.broken


def test_a_member_that_nobody_needs_leaves_alone(story: Story) -> None:
    gang(story, 3, 2)
    evict(story, "g0", nominate(story, "g0"))
    assert "I11f" not in story.broken


def test_a_podgroup_says_how_many_a_gang_needs(story: Story) -> None:
    gang(story, 3, 2)
    story.put("podgroups", "g", {"spec": {"minMember": 3}}, "default")
    evict(story, "g0", nominate(story, "g0"))
    assert "I11f" in story.broken


def test_nobody_is_left_of_a_strict_gang_that_leaves(story: Story) -> None:
    members = gang(story, 2, 2)
    plan = nominate(story, *members)
    evict(story, "g0", plan)
    assert "I34" in story.finish(quiet=True)
    evict(story, "g1", plan)
    for name in members:
        story.delete("pods", name)
    assert "I34" not in story.finish(quiet=True)


def test_half_a_gang_is_left_when_whom_it_left_for_went_first(story: Story) -> None:
    members = gang(story, 2, 2)
    evict(story, "g0", nominate(story, *members))
    story.delete("pods", "high")
    assert "I34" not in story.finish(quiet=True)


def job(story: Story, victim: str) -> str:
    """`high` and `mate` are nominated together."""
    story.pod("mate", "8")
    story.change("pods", "mate", {"spec": {"priority": 9}})
    listed = [Victim(namespace="default", name=victim, uid=f"uid-{victim}", version=story.version, node="n1")]
    ref = GangRef(name="default/job", size=2)
    fields = {"nominates": True, "victims": listed, "gang": ref}
    return story.commit(*(story.decision(name, "n1", **fields) for name in ("high", "mate")))


def test_others_leave_for_a_gang_while_all_of_it_waits(story: Story) -> None:
    evict(story, "low", job(story, "low"))
    assert "I34" not in story.broken


def test_nobody_leaves_for_half_a_gang(story: Story) -> None:
    plan = job(story, "low")
    story.delete("pods", "mate")
    story.wait(60.0)
    evict(story, "low", plan)
    assert story.broken == ["I34"]


def test_members_of_a_gang_may_have_what_was_left_for_each_other(story: Story) -> None:
    """Both are decided together, whatever was left for which of them."""
    plan = job(story, "low")
    evict(story, "low", plan)
    story.delete("pods", "low")
    story.place("mate", gang=GangRef(name="default/job", size=2))
    assert "I11d" not in story.broken


@pytest.mark.parametrize(("looked_at", "broken"), [(("high", "mate"), []), (("high",), ["I34"])])
def test_somebody_looks_at_all_of_a_gang_before_the_first_leaves(
    story: Story, looked_at: tuple[str, ...], broken: list[str]
) -> None:
    plan = job(story, "low")
    mark(story, "low", plan)
    for name in looked_at:
        story.observer.looked("default", name)
    evict(story, "low", plan)
    assert story.broken == broken


def second(story: Story) -> str:
    """`high` is withdrawn while its victim leaves, and gets another victim."""
    story.pod("other", "1")
    evict(story, "low", nominate(story, "low"))
    story.withdraw("high")
    return nominate(story, "other")


def test_a_pod_gets_one_set_of_victims(story: Story) -> None:
    second(story)
    assert story.broken == ["I11g"]


def test_a_plan_that_was_let_go_makes_way_for_another(story: Story) -> None:
    plan = nominate(story, "low")
    evict(story, "low", plan)
    story.withdraw("high")
    story.change("pods", "high", {"metadata": {"annotations": let_go_note({}, plan)}})
    story.pod("other", "1")
    nominate(story, "other")
    assert story.broken == []


def test_once_a_victim_is_gone_others_may_follow(story: Story) -> None:
    story.pod("other", "1")
    evict(story, "low", nominate(story, "low"))
    story.delete("pods", "low")
    story.withdraw("high")
    nominate(story, "other")
    assert story.broken == []


def test_a_solver_that_has_not_seen_the_victim_leave_is_excused(story: Story) -> None:
    story.pod("other", "1")
    before = story.version
    evict(story, "low", nominate(story, "low"))
    story.withdraw("high")
    listed = [Victim(namespace="default", name="other", uid="uid-other", version=before, node="n1")]
    story.place("high", nominates=True, victims=listed, basis=before)
    assert story.broken == []
    assert story.observer.verdicts.excuses["I11g", "unseen"] == 1


def test_a_victim_is_deleted_behind_a_look(story: Story) -> None:
    plan = nominate(story, "low")
    mark(story, "low", plan)
    story.observer.looked("default", "high")
    evict(story, "low", plan)
    assert story.broken == []
    assert story.observer.verdicts.judgements["I11h"] == 1


def test_a_look_before_the_mark_is_none(story: Story) -> None:
    plan = nominate(story, "low")
    story.observer.looked("default", "high")
    evict(story, "low", plan)
    assert story.broken == ["I11h"]


def test_a_look_that_finds_another_attempt_is_none(story: Story) -> None:
    plan = nominate(story, "low")
    mark(story, "low", plan)
    story.withdraw("high")
    story.observer.looked("default", "high")
    evict(story, "low", plan)
    assert story.broken == ["I11h"]


def test_a_deletion_that_was_on_its_way_behind_a_look_is_nobodys_fault(story: Story) -> None:
    plan = nominate(story, "low")
    mark(story, "low", plan)
    story.observer.looked("default", "high")
    story.delete("pods", "high")
    evict(story, "low", plan)
    assert story.broken == []


def test_what_berth_deletes_is_marked(story: Story) -> None:
    story.observer.by_berth(True)
    story.change("pods", "low", {"metadata": {"deletionTimestamp": MOMENT}})
    assert story.broken == ["I11"]


def test_what_others_delete_is_not_judged_whatever_it_carries(story: Story) -> None:
    nominate(story)
    story.observer.by_berth(False)
    evict(story, "low", "unknown")
    assert story.broken == []


def test_nominations_and_marks_end_once_all_is_quiet(story: Story) -> None:
    plan = nominate(story, "low")
    assert story.finish(quiet=False) == []
    assert story.finish(quiet=True) == ["I4", "I11c"]
    story.delete("pods", "high")
    story.tidy("high")
    assert story.finish(quiet=True) == []
    mark(story, "low", plan)
    assert story.finish(quiet=True) == ["I11c"]


def booked(story: Story, priority: int | None = 9, displaces: str = "", labels: dict[str, str] | None = None) -> str:
    """A Reservation that waits for the node which `low` fills, nominated to it; under which plan."""
    pod = {} if priority is None else {"priority": priority}
    note = WindowNote(uid="s", start="2026-01-01T00:00:00Z", end=END, displaces=displaces)
    window = {names.ANNOTATION_WINDOW: msgspec.json.encode(note).decode()} if displaces else {}
    meta = {"labels": labels or {}, "annotations": window}
    spec = {"owners": [{}], "template": {"spec": pod}, "expires": END}
    story.put("reservations", "kept", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})
    victim = Victim(namespace="default", name="low", uid="uid-low", version=story.version, node="n1")
    uid = story.objects["reservations"]["kept"]["metadata"]["uid"]
    fields = {"plan": "", "kind": "reservation", "namespace": "", "name": "kept", "uid": uid, "nominates": True}
    decision = Decision(
        **{**fields, "attempt": 0, "node": "n1", "pod_version": 1, "basis": 1, "victims": [victim]},
        allocation=Allocation(amounts={"cpu": 8000}),
    )
    return story.commit(decision)


def evict_for_it(story: Story, plan: str) -> None:
    uid = story.objects["reservations"]["kept"]["metadata"]["uid"]
    note = mark_note(Mark(plan, "/kept", uid, BY_SCHEDULER))
    condition = {"type": "DisruptionTarget", "status": "True", "reason": BY_SCHEDULER}
    story.change("pods", "low", {"metadata": {"annotations": note}, "status": {"conditions": [condition]}})
    story.change("pods", "low", {"metadata": {"deletionTimestamp": MOMENT}})


@pytest.mark.parametrize(
    ("said", "broken"),
    [
        ({}, []),
        ({"priority": None, "labels": {names.LABEL_PRIORITY: "9"}}, []),
        ({"displaces": "LowerPriority"}, []),
        ({"priority": None}, ["I11b"]),
        ({"priority": None, "labels": {names.LABEL_PRIORITY: "high"}}, ["I11b"]),
        ({"priority": 0}, ["I11b"]),
        ({"displaces": "Nobody"}, ["I11b"]),
        ({"displaces": "Borrowers"}, ["I11b"]),
    ],
)
def test_for_a_reservation_only_whom_it_may_displace(story: Story, said: dict[str, Any], broken: list[str]) -> None:
    evict_for_it(story, booked(story, **said))
    assert story.broken == broken


def test_borrowers_leave_for_a_window(story: Story) -> None:
    story.change("pods", "low", {"metadata": {"labels": {names.LABEL_RESERVATION_IGNORED: "true"}}})
    evict_for_it(story, booked(story, None, "Borrowers"))
    assert story.broken == []


def test_nobody_leaves_for_a_reservation_that_has_ended(story: Story) -> None:
    plan = booked(story)
    story.change("reservations", "kept", {"status": {"phase": "Failed"}})
    story.wait(60.0)
    evict_for_it(story, plan)
    assert story.broken == ["I11"]


def test_what_was_left_for_a_reservation_is_for_no_lower_pod(story: Story) -> None:
    story.pod("thief", "4")
    plan = booked(story)
    evict_for_it(story, plan)
    story.delete("pods", "low")
    story.place("thief")
    assert story.broken == ["I11d"]
