"""A Reservation is bound as a pod is: once, as it was decided, under a committed plan of this epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.libs.invariants.stage import stage
from tests.libs.invariants.story import Story

from berth.contracts import names, subjects
from berth.contracts.ledger import Allocation, Decision, DeviceGrant, Epoch, Loan, PlanStatus


def waits(story: Story, scheduler: str = "") -> None:
    template = {"spec": {"schedulerName": scheduler}} if scheduler else {}
    spec = {"owners": [{"labelSelector": {"matchLabels": {"app": "db"}}}], "template": template}
    body = {"metadata": {"annotations": {}}, "spec": spec, "status": {"phase": "Pending"}}
    story.put("reservations", "r", body)


def decided(story: Story, node: str = "n1", cpu: int = 4000, minor: int = 0, **fields: Any) -> Decision:
    meta = story.objects["reservations"]["r"]["metadata"]
    attempt = int(meta["annotations"].get(names.ANNOTATION_ATTEMPT, "0"))
    grant = DeviceGrant(kind="gpu", minor=minor, amounts={names.GPU_CORE: 50})
    given = {
        "attempt": attempt,
        "allocation": Allocation(amounts={"cpu": cpu, "memory": 1 << 30, names.GPU_CORE: 50}, devices=[grant]),
        **fields,
    }
    name = {"plan": "", "kind": "reservation", "namespace": "", "name": "r", "uid": meta["uid"]}
    return Decision(**{**name, "node": node, "pod_version": 1, "basis": 1, **given})


def placed(story: Story, **fields: Any) -> Decision:
    waits(story)
    story.commit(decided(story, **fields))
    return story.decisions["r"]


def bound(story: Story, made: Decision, **differently: Any) -> None:
    """The annotations first, then the status."""
    made = msgspec.structs.replace(made, **differently)
    story.lease(made.plan)
    cards = [
        {"minor": each.minor, "resources": {key: str(value) for key, value in each.amounts.items()}}
        for each in made.allocation.devices
    ]
    notes = {
        names.ANNOTATION_PLAN: made.plan,
        names.ANNOTATION_DEVICE_ALLOCATED: msgspec.json.encode({"gpu": cards}).decode(),
    }
    amounts = made.allocation.amounts
    capacity = {
        "cpu": f"{amounts['cpu']}m",
        "memory": str(amounts["memory"]),
        names.GPU_CORE: str(amounts[names.GPU_CORE]),
    }
    story.change("reservations", "r", {"metadata": {"annotations": notes}})
    status = {"phase": "Available", "nodeName": made.node, "allocatable": capacity}
    story.change("reservations", "r", {"status": status})


def test_as_it_was_decided() -> None:
    story = stage()
    bound(story, placed(story))
    story.change("reservations", "r", {"status": {"phase": "Failed"}})
    story.delete("reservations", "r")
    assert (story.broken, story.finish()) == ([], [])


def elsewhere(story: Story) -> None:
    bound(story, placed(story), node="n2")


def half_of_it(story: Story) -> None:
    made = placed(story)
    bound(story, made, allocation=decided(story, cpu=2000).allocation)


def other_cards(story: Story) -> None:
    made = placed(story)
    bound(story, made, allocation=decided(story, minor=1).allocation)


def under_another_plan(story: Story) -> None:
    bound(story, placed(story), plan="made-up")


def without_a_plan(story: Story) -> None:
    placed(story)
    story.change("reservations", "r", {"status": {"phase": "Available", "nodeName": "n1"}})


def uncommitted(story: Story) -> None:
    waits(story)
    story.commit(decided(story), status=PlanStatus.OPEN)
    bound(story, story.decisions["r"])


def moved(story: Story) -> None:
    bound(story, placed(story))
    story.change("reservations", "r", {"status": {"nodeName": "n2"}})


def by_an_old_epochs_decision(story: Story) -> None:
    made = placed(story)
    story.write(subjects.EPOCH_KEY, Epoch(epoch=2))
    story.current = 2
    bound(story, made)


def withdraw(story: Story) -> None:
    story.change("reservations", "r", {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "1"}}})


def withdrawn_before(story: Story) -> None:
    made = placed(story)
    withdraw(story)
    bound(story, made)


def withdrawn_later(story: Story) -> None:
    bound(story, placed(story))
    withdraw(story)


def for_its_predecessor(story: Story) -> None:
    made = placed(story)
    story.delete("reservations", "r")
    story.put("reservations", "r", {"metadata": {"uid": "uid-again", "annotations": {}}, "spec": {}, "status": {}})
    bound(story, made)


@pytest.mark.parametrize(
    ("promise", "fault"),
    [
        ("I5", elsewhere),
        ("I5", half_of_it),
        ("I5", other_cards),
        ("I5", under_another_plan),
        ("I5", without_a_plan),
        ("I5", uncommitted),
        ("I5", moved),
        ("I5", for_its_predecessor),
        ("I12", by_an_old_epochs_decision),
        ("I4", withdrawn_before),
        ("I4", withdrawn_later),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_otherwise(promise: str, fault: Callable[[Story], None]) -> None:
    story = stage()
    fault(story)
    assert story.broken == [promise], [str(each) for each in story.observer.violations]


def test_capacity_is_looked_for_where_it_is_bound() -> None:
    story = stage()
    made = placed(story)
    story.pod("large", cpu="5")
    story.place("large", "n2")
    assert story.broken == []
    bound(story, made, node="n2")
    assert story.broken == ["I10b", "I5"]


def test_one_that_another_scheduler_binds_was_decided_by_nobody() -> None:
    story = stage()
    waits(story, scheduler="koord-scheduler")
    story.change("reservations", "r", {"status": {"phase": "Available", "nodeName": "n1"}})
    assert story.broken == []


def test_one_that_was_there_before_is_as_it_is() -> None:
    story = stage()
    story.reservation()
    story.change("reservations", "r", {"status": {"currentOwners": []}})
    assert story.broken == []


def test_what_was_decided_of_it_is_forgotten_with_it() -> None:
    story = stage()
    bound(story, placed(story))
    story.write(subjects.decision_key(1, "", "r"), None, deleted=True)
    story.delete("reservations", "r")
    assert story.observer._decided.by_uid == {}


def test_a_decision_in_doubt_excuses_nobody_else_of_its_node() -> None:
    story = stage()
    story.reservation("r", cpu="4")
    story.place("b")
    story.lose(3)  # nobody had acted on it; the next decision comes under its sequence
    story.pod("doubtful")
    story.place("doubtful")
    story.pod("large", cpu="5")
    story.place("large")
    assert story.observer.capacity.doubt.of == {"uid-doubtful"}
    assert story.broken == ["I10b"]


# --- as it demands (I29) ---------------------------------------------------------------------------------------------


def draws(story: Story, name: str, cpu: str = "2", **labels: str) -> None:
    story.pod(name, cpu, app="db", **labels)
    story.place(name, reservation="r", reservation_uid="uid-r")


def by_the_terms(story: Story) -> None:
    story.reservation(allocatePolicy="Restricted", allocateOnce=False)
    draws(story, "user-a")
    draws(story, "user-b")


def beyond_its_amounts(story: Story) -> None:
    by_the_terms(story)
    draws(story, "user-c")


def into_the_inner_part(story: Story) -> None:
    notes = {names.ANNOTATION_NODE_RESERVATION: '{"resources":{"cpu":"1"}}'}
    story.reservation(allocatePolicy="Restricted", allocateOnce=False, notes=notes)
    draws(story, "user-a", cpu="4")


def past_a_taint(story: Story) -> None:
    story.reservation(taints=[{"key": "k", "effect": "NoSchedule"}])
    draws(story, "user-a")


def past_the_mark(story: Story) -> None:
    story.reservation(unschedulable=True)
    draws(story, "user-a")


def a_pod_that_wants_none(story: Story) -> None:
    story.reservation()
    draws(story, "user-a", **{names.LABEL_RESERVATION_IGNORED: "true"})


@pytest.mark.parametrize(
    "fault", [beyond_its_amounts, into_the_inner_part, past_a_taint, past_the_mark, a_pod_that_wants_none]
)
def test_used_otherwise_than_it_demands(fault: Callable[[Story], None]) -> None:
    story = stage()
    fault(story)
    assert story.broken == ["I29"], [str(each) for each in story.observer.violations]


def test_used_as_it_demands() -> None:
    story = stage()
    by_the_terms(story)
    assert story.broken == []
    assert story.observer.verdicts.judgements["I29"] >= 4


# --- what is borrowed (I29b) -----------------------------------------------------------------------------------------


def borrows(story: Story, cpu: str = "6", lent: int = 2000, **labels: str) -> None:
    story.reservation(cpu="4", allocateOnce=False)
    story.pod("lodger", cpu, **{names.LABEL_RESERVATION_IGNORED: "true", **labels})
    story.place("lodger", loans=[Loan(reservation="r", reservation_uid="uid-r", amounts={"cpu": lent})])


def test_what_is_idle_may_be_borrowed() -> None:
    story = stage()
    borrows(story)
    assert story.broken == []
    assert story.observer.verdicts.judgements["I29b"] >= 1


def by_a_protected_pod(story: Story) -> None:
    borrows(story, **{names.LABEL_DISABLE_PREEMPTIBLE: "true"})


def without_asking(story: Story) -> None:
    borrows(story, **{names.LABEL_RESERVATION_IGNORED: "yes"})


def more_than_is_idle(story: Story) -> None:
    borrows(story, "7", 5000)


@pytest.mark.parametrize("fault", [by_a_protected_pod, without_asking, more_than_is_idle])
def test_borrowed_otherwise(fault: Callable[[Story], None]) -> None:
    story = stage()
    fault(story)
    assert story.broken == ["I29b"], [str(each) for each in story.observer.violations]


def test_what_is_not_named_as_borrowed_is_given_away() -> None:
    story = stage()
    borrows(story, "7", 2000)
    assert story.broken == ["I10b"]
