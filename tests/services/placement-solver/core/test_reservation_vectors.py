"""The reference cases of Reservations, as reservation-manager publishes them to the solver."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from berth.contracts import kube, names
from berth.contracts.state import Node, Pod, PodTemplate, Reservation
from berth.placement_solver.core.borrowing import lenders
from berth.placement_solver.core.capacity import Capacity
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.reserved import Offer, Reservations
from berth.placement_solver.core.reserved_choice import usable
from berth.reservation_manager.core.life import User, live
from berth.reservation_manager.core.reserved_capacity import capacity_of
from berth.resources.amounts import format_amounts
from berth.rules.reservation_match import ReservationRequest, reservation_request_of
from berth.rules.reservation_owners import PodIdentity
from berth.testing.builders import pod
from berth.testing.vectors import cases
from berth.transaction.claims import Claim, of_reservation


class World:
    """One node with one Reservation that is available there."""

    def __init__(self, node_labels: dict[str, str], amounts: dict[str, int], **fields: Any) -> None:
        nodes = Nodes()
        nodes.see_node("n", Node(name="n", uid="n", version=1, labels=node_labels, allocatable={"cpu": 1 << 40}))
        self.capacity = Capacity(nodes, Quotas())
        self.reservation = Reservation(
            **{"name": "r", "owners": [kube.ReservationOwner()], **fields},
            uid="r-1",
            version=1,
            phase="Available",
            node="n",
            allocatable=amounts,
            template=PodTemplate(priority=1),
        )
        self.capacity.apply(of_reservation(self.reservation), 1)
        self.reservations = Reservations()
        life = live(self.reservation, [], node_is_gone=False, now=0.0)
        self.reservations.see(self.reservation.name, capacity_of(self.reservation, life))

    def use(self, uid: str, amounts: dict[str, int]) -> None:
        self.capacity.apply(Claim(("default", uid), uid, "n", amounts, reservation="r-1"), 1)

    @property
    def held(self) -> Offer:
        return Offer(self.reservations.known["r-1"], self.capacity.reserved["r-1"])


def asking(given: dict[str, Any]) -> Pod:
    builder = pod(given["name"], given.get("namespace", "default")).requests(given.get("requests", {}))
    for key, value in given.get("labels", {}).items():
        builder.label(key, value)
    if given.get("ignored"):
        builder.label(names.LABEL_RESERVATION_IGNORED, "true")
    if given.get("affinity") is not None:
        affinity = dict(given["affinity"])
        if "requiredTerms" in affinity:
            terms = {"reservationSelectorTerms": affinity.pop("requiredTerms")}
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = terms
        builder.annotation(names.ANNOTATION_RESERVATION_AFFINITY, json.dumps(affinity))
    if "exactMatch" in given:
        builder.annotation(names.ANNOTATION_RESERVATION_EXACT, json.dumps({"resourceNames": given["exactMatch"]}))
    return builder.build(1)


@pytest.mark.parametrize("case", cases("reservation/pod_match"))
def test_a_reservation_matches_a_pod(case: dict[str, Any]) -> None:
    given, told = case["given"], case["given"]["reservation"]
    world = World(
        given.get("nodeLabels", {}),
        told.get("allocatable", {"cpu": 1}),
        name=told["name"],
        labels=told["labels"],
        owners=msgspec.convert(told["owners"], list[kube.ReservationOwner]),
        unschedulable=told.get("unschedulable", False),
        taints=msgspec.convert(told.get("taints", []), list[kube.Taint]),
        deleting=told.get("terminating", False),
    )
    pod = asking(given["pod"])
    wish = reservation_request_of(pod)
    if wish is None:
        lending = world.reservations.lending(world.capacity)
        (lender,) = lenders(pod, pod.template.requests, lending, world.capacity.nodes)
        assert [offer.name for offer in lender.offers] == [told["name"]]
        assert (case["expect"]["match"], case["expect"]["reason"]) == (True, "ignored")
        return
    assert wish.problem is None
    found = [offer.name for offer in world.reservations.matching(wish, world.capacity)]
    assert found == ([told["name"]] if case["expect"]["match"] else [])
    ((_, failed),) = world.reservations.checked(wish, world.capacity)
    assert (failed or "matched") == case["expect"]["reason"]


@pytest.mark.parametrize("case", cases("reservation/restricted_names"))
def test_the_restricted_policy_binds_the_named_resources(case: dict[str, Any]) -> None:
    given = case["given"]
    notes = {}
    if given["options"] is not None:
        notes[names.ANNOTATION_RESERVATION_RESTRICTED] = json.dumps({"resources": given["options"]})
    amounts = dict.fromkeys(given["allocatableNames"], 1)
    world = World({}, amounts, annotations=notes, allocate_policy="Restricted")
    asked = dict.fromkeys({*amounts, *(given["options"] or ())}, 2)
    wish = ReservationRequest(PodIdentity("default", "p"), must=True, requests=asked)
    best_first, (refusal,) = usable(wish, [world.held], world.capacity.nodes, ())
    assert list(best_first) == []
    lacking = [f"Insufficient {name}" for name in case["expect"]["names"]]
    assert refusal.message == f"reservation r: {', '.join(lacking)}"


@pytest.mark.parametrize("case", cases("reservation/available_amounts"))
def test_what_is_left_of_a_reservation(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    assert sorted(given["names"]) == sorted(given["allocatable"])
    text = json.dumps({"resources": format_amounts(given.get("reserved", {}))})
    notes = {names.ANNOTATION_NODE_RESERVATION: text}
    world = World({}, given["allocatable"], allocate_once=False, annotations=notes)
    for place, owner in enumerate(given["owners"]):
        world.use(f"p{place}", owner)
    users = [User(f"p{place}", "default", f"p{place}", owner) for place, owner in enumerate(given["owners"])]
    assert live(world.reservation, users, node_is_gone=False, now=0.0).allocated == expect["allocated"]
    # The solver never gives out what is not there: an over-used reservation has nothing left.
    assert world.held.holder.offered.amounts == {name: max(0, amount) for name, amount in expect["available"].items()}
