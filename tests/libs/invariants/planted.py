"""Faults to plant into a story, and the promise that each of them breaks."""

from __future__ import annotations

from collections.abc import Callable

from tests.libs.invariants.stage import gang
from tests.libs.invariants.story import Json, Story

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Epoch, GangRef, PlanStatus
from berth.contracts.state import Node
from berth.rules.quota_of_pod import DEFAULT_GROUP


def twice_decided(story: Story) -> None:
    story.place("a", minors={0: 60})
    story.place("b", minors={0: 60})


def freed_while_terminating(story: Story) -> None:
    story.place("a", minors={0: 100})
    story.bind("a")
    story.change("pods", "a", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    story.place("b", minors={0: 100})


def overfull_node(story: Story) -> None:
    story.pod("large", cpu="8")
    story.place("a")
    story.place("large")


def too_many_pods(story: Story) -> None:
    story.node(pods="1")
    story.wait(100)
    story.place("a")
    story.place("b")


def on_a_broken_card(story: Story) -> None:
    story.health("n1", True, False)
    story.wait(11)
    story.place("a", minors={1: 50})


def on_a_card_that_is_not_there(story: Story) -> None:
    story.place("a", minors={7: 50})


def on_a_cordoned_node(story: Story) -> None:
    story.change("nodes", "n1", {"spec": {"unschedulable": True}})
    story.wait(11)
    story.place("a")


def on_a_node_that_is_gone(story: Story) -> None:
    story.delete("nodes", "n1")
    story.wait(11)
    story.place("a")


def quota_above_max(story: Story) -> None:
    story.place("a", quota="/blue")
    story.pod("large", cpu="4")
    story.place("large", quota="/blue")


def ancestor_above_max(story: Story) -> None:
    story.pod("x", cpu="3")
    story.pod("y", cpu="3")
    story.place("x", quota="/blue")
    story.place("y", quota="/red")


def charged_to_nobody(story: Story) -> None:
    story.wait(11)
    story.pod("p", **{names.LABEL_QUOTA_NAME: "blue"})
    story.place("p")


def charged_to_the_default_group(story: Story) -> None:
    story.wait(11)
    story.pod("p", **{names.LABEL_QUOTA_NAME: "blue"})
    story.place("p", quota=f"/{DEFAULT_GROUP}")


def non_preemptible_above_min(story: Story) -> None:
    story.place("a", quota="/blue", non_preemptible=True)
    story.place("b", quota="/blue", non_preemptible=True)


def half_decided_gang(story: Story) -> None:
    gang(story, 3)
    ref = GangRef(name="default/g", size=3)
    story.commit(*(story.decision(name, gang=ref) for name in ("g1", "g2")))
    story.bind("g1")


def gang_left_half_bound(story: Story) -> None:
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.wait(31)


def gang_begun_after_a_member_left(story: Story) -> None:
    gang(story, 2)
    story.gang("g1", "g2")
    story.delete("pods", "g2")
    story.wait(11)
    story.bind("g1")


def withdrawn_then_bound(story: Story) -> None:
    story.place("a")
    decision = story.decisions["a"]
    story.withdraw("a")
    story.bind("a", decision)


def bound_then_withdrawn(story: Story) -> None:
    story.place("a")
    story.bind("a")
    story.withdraw("a")


def without_a_decision(story: Story) -> None:
    story.bind("a", story.decision("a"), plan="made-up")


def without_a_plan(story: Story) -> None:
    story.change("pods", "a", {"spec": {"nodeName": "n1"}})


def elsewhere(story: Story) -> None:
    story.place("a")
    story.bind("a", node="n2")


def other_devices(story: Story) -> None:
    story.place("a", minors={0: 50})
    story.bind("a", allocation=story.decision("a", minors={1: 50}).allocation)


def moved(story: Story) -> None:
    story.place("a")
    story.bind("a")
    story.change("pods", "a", {"spec": {"nodeName": "n2"}})


def successor_of_the_same_name(story: Story) -> None:
    story.place("a")
    decision = story.decisions["a"]
    story.delete("pods", "a")
    story.pod("a", uid="uid-of-the-successor")
    story.bind("a", decision)


def uncommitted(story: Story) -> None:
    story.commit(story.decision("a"), status=None)
    story.bind("a")


def dropped_while_bound(story: Story) -> None:
    story.place("a", minors={0: 100})
    story.bind("a")
    story.tidy("a")


def dropped_while_open(story: Story) -> None:
    story.place("a")
    story.tidy("a")


def replaced_while_open(story: Story) -> None:
    story.place("a")
    story.place("a", "n2")


def a_strangers_use(story: Story) -> None:
    story.reservation()
    story.place("a", reservation="r", reservation_uid="uid-r")


def use_on_another_node(story: Story) -> None:
    story.reservation()
    story.pod("owner", app="db")
    story.place("owner", "n2", reservation="r", reservation_uid="uid-r")


def two_users_of_one(story: Story) -> None:
    story.reservation()
    for name in ("one", "two"):
        story.pod(name, app="db")
        story.place(name, reservation="r", reservation_uid="uid-r")


def reserved_capacity_given_away(story: Story) -> None:
    story.reservation(cpu="4")
    story.pod("large", cpu="5")
    story.place("large")


def an_old_epochs_decision(story: Story) -> None:
    story.place("a")
    decision = story.decisions["a"]
    story.write(subjects.EPOCH_KEY, Epoch(epoch=2))
    story.current = 2
    story.bind("a", decision)


def an_epoch_that_goes_back(story: Story) -> None:
    story.epoch(2)
    story.write(subjects.EPOCH_KEY, Epoch(epoch=1))


def an_aborted_plan_committed(story: Story) -> None:
    plan = story.commit(story.decision("a"), status=PlanStatus.ABORTED)
    story.entry(plan, PlanStatus.COMMITTED)


def a_version_that_goes_back(story: Story) -> None:
    story.observer.state("node.n1", encode(Node(name="n1", uid="u", version=9)), False)
    story.observer.state("node.n1", encode(Node(name="n1", uid="u", version=8)), False)


def a_version_behind_its_deletion(story: Story) -> None:
    story.observer.state("node.n1", b"9", True)
    story.observer.state("node.n1", encode(Node(name="n1", uid="u", version=8)), False)


def a_lease_that_goes_back(story: Story) -> None:
    story.epoch(2)
    story.lease("")
    story.current = 1
    story.lease("")


def a_message_that_nobody_can_read(story: Story) -> None:
    story.observer.ledger(subjects.decision_key(1, "default", "a"), b"{", False, 99)


def an_object_that_nobody_can_read(story: Story) -> None:
    story.observer.api("pods", {"metadata": {"name": "x", "uid": "u"}, "spec": {"containers": 3}})


ZONE = "topology.kubernetes.io/zone"
WEB = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [WEB]}


def in_two_zones(story: Story, terms: Json) -> None:
    """Two pods with these terms wait; the zones of both nodes are known."""
    for node in ("n1", "n2"):
        story.change("nodes", node, {"metadata": {"labels": {ZONE: f"zone of {node}"}}})
    story.wait(11)
    for name in ("one", "other"):
        story.pod(name, terms=terms, app="web")


def more_in_one_zone(story: Story) -> None:
    in_two_zones(story, {"topologySpreadConstraints": [{**WEB, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]})
    story.place("one")
    story.place("other")


def together_though_apart(story: Story) -> None:
    in_two_zones(story, {"affinity": {"podAntiAffinity": REQUIRED}})
    story.place("one")
    story.place("other")


def without_its_company(story: Story) -> None:
    in_two_zones(story, {"affinity": {"podAffinity": REQUIRED}})
    story.place("one")
    story.place("other", "n2")


FAULTS: list[tuple[str, Callable[[Story], None]]] = [
    ("I0", a_message_that_nobody_can_read),
    ("I0", an_object_that_nobody_can_read),
    ("I1", twice_decided),
    ("I1", freed_while_terminating),
    ("I1b", overfull_node),
    ("I1b", too_many_pods),
    ("I1e", on_a_broken_card),
    ("I1e", on_a_card_that_is_not_there),
    ("I1f", on_a_cordoned_node),
    ("I1f", on_a_node_that_is_gone),
    ("I2", quota_above_max),
    ("I2", ancestor_above_max),
    ("I2", charged_to_nobody),
    ("I2", charged_to_the_default_group),
    ("I2b", non_preemptible_above_min),
    ("I3", half_decided_gang),
    ("I3", gang_left_half_bound),
    ("I3", gang_begun_after_a_member_left),
    ("I4", withdrawn_then_bound),
    ("I4", bound_then_withdrawn),
    ("I5", without_a_decision),
    ("I5", without_a_plan),
    ("I5", elsewhere),
    ("I5", other_devices),
    ("I5", moved),
    ("I5", successor_of_the_same_name),
    ("I5", uncommitted),
    ("I17", more_in_one_zone),
    ("I18", together_though_apart),
    ("I18", without_its_company),
    ("I6", dropped_while_bound),
    ("I6", dropped_while_open),
    ("I6", replaced_while_open),
    ("I10", a_strangers_use),
    ("I10", use_on_another_node),
    ("I10", two_users_of_one),
    ("I10b", reserved_capacity_given_away),
    ("I12", an_old_epochs_decision),
    ("I12", an_epoch_that_goes_back),
    ("I12", an_aborted_plan_committed),
    ("I12", a_version_that_goes_back),
    ("I12", a_version_behind_its_deletion),
    ("I12", a_lease_that_goes_back),
]
