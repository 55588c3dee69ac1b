"""Reservations as members of gangs, at every moment: I3, and I11f for whom they stay."""

from __future__ import annotations

from typing import Any

from tests.libs.invariants.stage import gang
from tests.libs.invariants.story import Story

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Allocation, Decision, GangRef
from berth.contracts.state import Reservation


def stage(minimum: int = 3) -> Story:
    """Two pods and a Reservation that wait, of a gang of three."""
    story = Story()
    story.node("n1")
    gang(story, 2)
    for name in ("g1", "g2"):
        story.change("pods", name, {"metadata": {"annotations": {names.ANNOTATION_GANG_MIN: str(minimum)}}})
    notes = {names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: str(minimum)}
    requests = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    template = {"metadata": {"annotations": notes}, "spec": requests}
    story.put("reservations", "r", {"metadata": {"annotations": {}}, "spec": {"template": template}, "status": {}})
    return story


def reserved(story: Story, **fields: Any) -> Decision:
    meta = story.objects["reservations"]["r"]["metadata"]
    return Decision(
        **{
            "plan": "",
            "namespace": "",
            "name": "r",
            "uid": meta["uid"],
            "attempt": int(meta["annotations"].get(names.ANNOTATION_ATTEMPT, "0")),
            "node": "n1",
            "pod_version": int(meta["resourceVersion"]),
            "basis": story.version,
            "kind": "reservation",
            "allocation": Allocation(amounts={"cpu": 1000}),
            "accounts": [subjects.node_account("n1")],
            **fields,
        }
    )


def decide(story: Story, size: int = 3) -> str:
    ref = GangRef(name="default/g", size=size)
    pods = [story.decision(name, gang=ref) for name in ("g1", "g2")]
    plan = story.commit(*pods, reserved(story, gang=ref))
    story.lease(plan)
    return plan


def hold(story: Story, plan: str) -> None:
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "1"}}
    story.change("reservations", "r", {"metadata": {"annotations": {names.ANNOTATION_PLAN: plan}}, "status": status})


def test_a_gang_begins_with_its_reservation() -> None:
    story = stage()
    hold(story, decide(story))
    for name in ("g1", "g2"):
        story.bind(name)
    story.wait(60)
    assert story.broken == []
    assert story.observer.verdicts.judgements["I3"]


def test_one_that_is_not_decided_is_missed() -> None:
    story = stage()
    story.gang("g1", "g2")
    story.bind("g1")
    story.bind("g2")
    story.wait(60)
    assert story.broken == ["I3"]


def test_half_of_it_is_seen_from_the_reservation_as_well() -> None:
    story = stage()
    hold(story, decide(story))
    story.wait(60)
    assert story.broken == ["I3"]


def test_nobody_is_to_blame_for_one_that_ends_or_is_deleted() -> None:
    for ends in (True, False):
        story = stage()
        hold(story, decide(story))
        for name in ("g1", "g2"):
            story.bind(name)
        if ends:
            story.change("reservations", "r", {"status": {"phase": "Succeeded"}})
        else:
            story.delete("reservations", "r")
        story.wait(60)
        assert story.broken == []
        assert story.finish(quiet=True) == []


def test_one_that_ended_before_anybody_was_bound_was_no_member_any_more() -> None:
    story = stage()
    story.observer.state("reservation.r", encode(Reservation(name="r", uid="uid-r", version=1)), False)
    decide(story)
    story.wait(60)
    story.change("reservations", "r", {"status": {"phase": "Failed"}})
    uid = story.objects["reservations"]["r"]["metadata"]["uid"]
    departures = story.observer.gangs.departures
    assert departures.is_unknown(uid)
    story.observer.state("reservation.r", encode(Reservation(name="r", uid=uid, version=2, phase="Failed")), False)
    story.wait(60)
    assert not departures.is_unknown(uid)
