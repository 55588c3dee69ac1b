"""Claims and volumes as an observer judges them (I19 to I22): whose they are, where they are, and what comes first."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.invariants.story import Json, Story

from berth.contracts import names
from berth.contracts.ledger import Step

ZONE = "topology.kubernetes.io/zone"
DRIVER = "disks"


def claim(story: Story, name: str, volume: str = "", *, mode: str = "ReadWriteOnce", is_bound: bool = True) -> None:
    notes = {names.ANNOTATION_BIND_COMPLETED: "yes"} if volume and is_bound else {}
    spec: Json = {"accessModes": [mode], "storageClassName": "late"} | ({"volumeName": volume} if volume else {})
    story.put("persistentvolumeclaims", name, {"metadata": {"annotations": notes}, "spec": spec}, "default")


def volume(story: Story, name: str, of: str = "", *, zone: str = "", uid: str = "") -> None:
    spec: Json = {"storageClassName": "late", "csi": {"driver": DRIVER, "volumeHandle": name}}
    if of:
        spec["claimRef"] = {"namespace": "default", "name": of, "uid": uid or f"uid-{of}"}
    if zone:
        expressions = [{"key": ZONE, "operator": "In", "values": [zone]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    story.put("persistentvolumes", name, {"spec": spec})


def user(story: Story, name: str, *claims: str, **terms: Any) -> None:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    story.pod(name, terms={"volumes": volumes, **terms})


def keep(name: str, kept: str) -> Step:
    return Step(action="bind-volume", claim=name, claim_uid=f"uid-{name}", volume=kept, volume_uid=f"uid-{kept}")


def make(name: str) -> Step:
    return Step(action="provision-volume", claim=name, claim_uid=f"uid-{name}")


@pytest.fixture
def story() -> Story:
    """Two nodes in two zones, and a claim `data` with its volume."""
    made = Story()
    for name, zone in (("n1", "a"), ("n2", "b")):
        made.put("nodes", name, {"metadata": {"labels": {ZONE: zone}}, "status": {"allocatable": {"cpu": "8"}}})
    late = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    made.put("storageclasses", "late", late)
    volume(made, "disk", "data")
    claim(made, "data", "disk")
    return made


def judged(story: Story) -> set[str]:
    return {name for name, times in story.observer.verdicts.judgements.items() if times and name >= "I19"}


def test_pods_with_claims_by_the_rules_break_nothing(story: Story) -> None:
    claim(story, "later")
    volume(story, "free")
    user(story, "p", "data", "later")
    story.place("p", before=[keep("later", "free")])
    volume(story, "free", "later")
    claim(story, "later", "free")
    story.bind("p")
    assert story.broken == []
    assert judged(story) >= {"I19b", "I20", "I22"}
    assert story.finish() == []


def test_a_claim_of_one_pod_has_one_user(story: Story) -> None:
    claim(story, "data", "disk", mode="ReadWriteOncePod")
    user(story, "p", "data")
    user(story, "q", "data")
    story.place("p")
    assert story.broken == []
    story.place("q", "n2")
    assert story.broken == ["I19"]


def test_its_next_user_comes_when_the_first_is_gone(story: Story) -> None:
    claim(story, "data", "disk", mode="ReadWriteOncePod")
    user(story, "p", "data")
    user(story, "q", "data")
    story.place("p")
    story.bind("p")
    story.delete("pods", "p")
    story.place("q", "n2")
    story.bind("q")
    assert story.broken == []
    assert "I19" in judged(story)


def test_bound_users_are_two_whatever_the_ledger_has_lost(story: Story) -> None:
    claim(story, "data", "disk", mode="ReadWriteOncePod")
    user(story, "p", "data")
    user(story, "q", "data")
    story.place("p")
    first = story.decisions["p"]
    story.lease(first.plan)
    story.lose(len(story.stored) - 1)
    story.place("q", "n2")
    assert story.broken == []
    story.bind("q")
    story.land("p", first)
    assert "I19" in story.broken


def test_a_user_of_another_scheduler_counts_once_it_can_be_known(story: Story) -> None:
    claim(story, "data", "disk", mode="ReadWriteOncePod")
    for name in ("p", "q"):
        user(story, name, "data")
    user(story, "foreign", "data", schedulerName="other", nodeName="n1")
    story.place("p")
    assert story.broken == []
    story.delete("pods", "p")
    story.wait(60.0)
    story.place("q")
    assert story.broken == ["I19"]


def test_many_may_use_any_other_claim(story: Story) -> None:
    for name in ("p", "q"):
        user(story, name, "data")
        story.place(name)
        story.bind(name)
    assert story.broken == []


def test_a_volume_is_kept_for_one_claim(story: Story) -> None:
    volume(story, "free")
    for name in ("one", "two"):
        claim(story, name)
        user(story, f"of-{name}", name)
    story.place("of-one", before=[keep("one", "free")])
    assert story.broken == []
    story.place("of-two", before=[keep("two", "free")])
    assert story.broken == ["I19b"]


def test_a_volume_that_is_somebodys_is_kept_for_nobody_else(story: Story) -> None:
    claim(story, "one")
    user(story, "p", "one")
    story.wait(60.0)
    story.place("p", before=[keep("one", "disk")])
    assert story.broken == ["I19b"]


def test_a_volume_that_has_just_been_given_away_may_not_be_seen_yet(story: Story) -> None:
    claim(story, "one")
    user(story, "p", "one")
    story.place("p", before=[keep("one", "disk")])
    assert story.broken == []


def test_a_volume_is_not_given_on(story: Story) -> None:
    volume(story, "disk", "other")
    assert story.broken == ["I19b"]


def test_a_volume_is_not_given_to_the_successor_of_its_claim(story: Story) -> None:
    volume(story, "disk", "data", uid="another")
    assert story.broken == ["I19b"]


def test_a_volume_that_was_cleared_is_anybodys(story: Story) -> None:
    volume(story, "disk")
    volume(story, "disk", "other")
    assert story.broken == []


def test_a_claim_keeps_its_volume(story: Story) -> None:
    claim(story, "data", "another")
    assert story.broken == ["I19b"]


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_pod_goes_where_its_volume_is(story: Story, node: str) -> None:
    volume(story, "far", "there", zone="b")
    claim(story, "there", "far")
    user(story, "p", "there")
    story.wait(60.0)
    story.place("p", node)
    assert story.broken == ([] if node == "n2" else ["I20"])


def test_a_volume_that_was_made_elsewhere_is_not_bound_to(story: Story) -> None:
    claim(story, "there")
    user(story, "p", "there")
    story.place("p", before=[make("there")])
    volume(story, "far", "there", zone="b")
    claim(story, "there", "far")
    story.wait(60.0)
    story.bind("p")
    assert story.broken == ["I20"]


def test_a_zone_is_asked_for_by_the_label_of_a_volume(story: Story) -> None:
    story.change("persistentvolumes", "disk", {"metadata": {"labels": {ZONE: "b"}}})
    user(story, "p", "data")
    story.wait(60.0)
    story.place("p", "n1")
    assert story.broken == ["I20"]


def test_a_node_that_has_just_changed_its_zone_may_not_be_seen_yet(story: Story) -> None:
    volume(story, "far", "there", zone="a")
    claim(story, "there", "far")
    user(story, "p", "there")
    story.wait(60.0)
    story.change("nodes", "n1", {"metadata": {"labels": {ZONE: "b"}}})
    story.place("p", "n1")
    assert story.broken == []
    assert story.observer.verdicts.excuses["I20", "unseen"] == 1


@pytest.mark.parametrize("limit", [1, 2])
def test_a_node_takes_so_many_volumes(story: Story, limit: int) -> None:
    drivers = [{"name": DRIVER, "nodeID": "n1", "allocatable": {"count": limit}}]
    story.put("csinodes", "n1", {"spec": {"drivers": drivers}})
    claim(story, "later")
    user(story, "p", "data")
    user(story, "again", "data")
    user(story, "q", "later")
    story.wait(60.0)
    for name in ("p", "again"):
        story.place(name)
        story.bind(name)
    assert story.broken == []
    story.place("q", before=[make("later")])
    assert story.broken == ([] if limit == 2 else ["I21"])


def test_a_pod_is_bound_when_its_step_is_done(story: Story) -> None:
    claim(story, "later")
    user(story, "p", "later")
    story.place("p", before=[make("later")])
    story.wait(60.0)
    story.bind("p")
    assert story.broken == ["I22"]


def test_a_claim_that_no_step_is_named_for_has_its_volume(story: Story) -> None:
    claim(story, "later")
    user(story, "p", "later")
    story.wait(60.0)
    story.place("p")
    assert story.broken == ["I22"]


def test_a_claim_that_was_just_made_again_may_be_taken_for_its_predecessor(story: Story) -> None:
    user(story, "p", "data")
    story.delete("persistentvolumeclaims", "data")
    claim(story, "data")
    story.place("p")
    assert story.broken == []
    assert story.observer.verdicts.excuses["I22", "unseen"] == 1


def test_a_volume_that_is_bound_by_half_is_not_bound(story: Story) -> None:
    claim(story, "later")
    user(story, "p", "later")
    story.place("p", before=[make("later")])
    volume(story, "new", "later")
    claim(story, "later", "new", is_bound=False)
    story.bind("p")
    assert story.broken == ["I22"]


def test_a_claim_that_has_just_gone_may_not_be_seen_yet(story: Story) -> None:
    claim(story, "later")
    user(story, "p", "later")
    story.place("p", before=[make("later")])
    volume(story, "new", "later")
    claim(story, "later", "new")
    story.delete("persistentvolumeclaims", "later")
    story.bind("p")
    assert story.broken == []
