"""A pod that runs is taken over by one Reservation, which it matches and fits into, and notes it first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.libs.invariants.stage import stage
from tests.libs.invariants.story import Story

from berth.contracts import names
from berth.contracts.ledger import Allocation, Decision, Step, Victim
from berth.rules.eviction_notes import Mark, mark_note
from berth.rules.preemption import BY_HAND_OVER
from berth.rules.reservation_operating import current_owner_note

PROMISE = "I30b"


def waits(story: Story, name: str = "r", policy: str = "Restricted", **meta: Any) -> None:
    owners = [{"labelSelector": {"matchLabels": {"app": "db"}}}]
    spec = {"owners": owners, "template": {}, "allocatePolicy": policy, "preAllocation": True, "allocateOnce": False}
    story.put("reservations", name, {"metadata": {"annotations": {}, **meta}, "spec": spec, "status": {}})


def runs(story: Story, name: str = "p", app: str = "db") -> None:
    story.pod(name)
    story.change("pods", name, {"metadata": {"labels": {"app": app}}})
    story.place(name, "n1")
    story.bind(name)


def takes_over(story: Story, *pods: str, name: str = "r", node: str = "n1", cpu: int = 4000) -> Decision:
    uids = {pod: story.objects["pods"][pod]["metadata"]["uid"] for pod in pods}
    steps = [Step(action="take-over", namespace="default", pod=pod, pod_uid=uid) for pod, uid in uids.items()]
    uid = story.objects["reservations"][name]["metadata"]["uid"]
    decision = Decision(
        plan="", kind="reservation", namespace="", name=name, uid=uid, attempt=0, node=node, pod_version=1, basis=1,
        other_basis=story.version, allocation=Allocation(amounts={"cpu": cpu}), before=steps,
    )  # fmt: skip
    story.commit(decision)
    return story.decisions[name]


def noted(story: Story, pod: str = "p", uid: str = "") -> None:
    uid = uid or story.objects["reservations"]["r"]["metadata"]["uid"]
    note = f'{{"name":"r","uid":"{uid}"}}'
    story.change("pods", pod, {"metadata": {"annotations": {names.ANNOTATION_RESERVATION_ALLOCATED: note}}})


def there(story: Story, made: Decision, name: str = "r") -> None:
    story.lease(made.plan)
    story.change("reservations", name, {"metadata": {"annotations": {names.ANNOTATION_PLAN: made.plan}}})
    allocatable = {"cpu": f"{made.allocation.amounts['cpu']}m"}
    status = {"phase": "Available", "nodeName": made.node, "allocatable": allocatable}
    story.change("reservations", name, {"status": status})


def test_as_it_is_meant() -> None:
    story = stage()
    runs(story)
    waits(story)
    made = takes_over(story, "p", cpu=8000)  # all that the node has
    noted(story)
    there(story, made)
    story.change("reservations", "r", {"status": {"currentOwners": [{"uid": "p"}]}})
    assert (story.broken, story.finish()) == ([], [])
    story.change("reservations", "r", {"status": {"phase": "Failed"}})
    story.delete("reservations", "r")
    assert (story.broken, story.finish()) == ([], [])


def test_what_a_withdrawn_decision_has_noted_harms_nobody() -> None:
    story = stage()
    runs(story)
    waits(story)
    takes_over(story, "p")
    noted(story)
    story.change("reservations", "r", {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "1"}}})
    assert story.broken == []


def unnoted(story: Story) -> None:
    runs(story)
    waits(story)
    there(story, takes_over(story, "p"))


def taken_by_two(story: Story) -> None:
    runs(story)
    for name in ("r", "s"):
        waits(story, name)
        takes_over(story, "p", name=name, cpu=1000)


def a_strangers(story: Story) -> None:
    runs(story, app="web")
    waits(story)
    takes_over(story, "p")


def too_large(story: Story) -> None:
    runs(story)
    waits(story)
    takes_over(story, "p", cpu=500)


def of_another_node(story: Story) -> None:
    runs(story)
    waits(story)
    takes_over(story, "p", node="n2")


def not_restricted(story: Story) -> None:
    runs(story)
    waits(story, policy="Aligned")
    takes_over(story, "p")


def nobody_although_it_has_to(story: Story) -> None:
    waits(story, labels={names.LABEL_PRE_ALLOCATION_REQUIRED: "true"})
    takes_over(story)


@pytest.mark.parametrize(
    "fault",
    [unnoted, taken_by_two, a_strangers, too_large, of_another_node, not_restricted, nobody_although_it_has_to],
)
def test_what_must_not_be(fault: Callable[[Story], None]) -> None:
    story = stage()
    fault(story)
    assert PROMISE in story.broken


def hands_over(story: Story, notes: dict[str, str], labels: dict[str, str]) -> None:
    """A pod leaves for another one as a placeholder."""
    story.pod("holds")
    story.change("pods", "holds", {"metadata": {"labels": labels, "annotations": notes}})
    story.place("holds", "n1")
    story.bind("holds")
    story.pod("user")
    story.change("pods", "user", {"metadata": {"labels": {"app": "db"}}})
    victim = Victim(namespace="default", name="holds", uid="uid-holds", version=story.version, node="n1")
    plan = story.place("user", "n1", nominates=True, victims=[victim], eviction_reason=BY_HAND_OVER)
    note = mark_note(Mark(plan, "default/user", "uid-user", BY_HAND_OVER))
    story.change("pods", "holds", {"metadata": {"annotations": note}})
    condition = {"type": "DisruptionTarget", "status": "True", "reason": BY_HAND_OVER}
    story.change("pods", "holds", {"status": {"conditions": [condition]}})
    story.change("pods", "holds", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})


OWNED = {names.ANNOTATION_RESERVATION_OWNERS: '[{"labelSelector":{"matchLabels":{"app":"db"}}}]'}
OF_ANOTHER = {names.ANNOTATION_RESERVATION_OWNERS: '[{"labelSelector":{"matchLabels":{"app":"web"}}}]'}
HOLDS = {names.LABEL_OPERATING_MODE: "Reservation"}
SAYS = current_owner_note("default", "user", "uid-user")


@pytest.mark.parametrize(
    ("notes", "labels", "broken"),
    [
        ({**OWNED, **SAYS}, HOLDS, []),
        ({**OWNED, **SAYS}, {}, [PROMISE]),
        (OWNED, HOLDS, [PROMISE]),
        ({**OF_ANOTHER, **SAYS}, HOLDS, [PROMISE]),
    ],
    ids=["as it is meant", "no placeholder", "unsaid", "of another"],
)
def test_who_hands_over(notes: dict[str, str], labels: dict[str, str], broken: list[str]) -> None:
    story = stage()
    hands_over(story, notes, labels)
    assert story.broken == broken
