"""Reservations are found by what their owners name: no pod pays for those of others, and none is missed."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts.kube import (
    ControllerReference,
    LabelSelector,
    ObjectReference,
    OwnerReference,
    Requirement,
    ReservationOwner,
)
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Node
from berth.placement_solver.core.capacity import Capacity
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.reserved import Reservations
from berth.rules.reservation_match import ReservationRequest
from berth.rules.reservation_owners import PodIdentity, compile_owners
from berth.transaction.claims import Claim

WORDS = ("", "a", "b")
words = st.sampled_from(WORDS)
labels = st.dictionaries(st.sampled_from(["app", "job"]), st.sampled_from(["x", "y"]), max_size=2)
requirements = st.one_of(
    st.builds(
        Requirement,
        key=st.sampled_from(["app", "job"]),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2),
    ),
    st.builds(Requirement, key=st.sampled_from(["app", "job"]), operator=st.sampled_from(["Exists", "DoesNotExist"])),
    st.just(Requirement(key="app", operator="Like", values=["x"])),
)
selectors = st.builds(
    LabelSelector,
    match_labels=st.one_of(st.none(), labels),
    match_expressions=st.one_of(st.none(), st.lists(requirements, max_size=2)),
)
owners = st.lists(
    st.builds(
        ReservationOwner,
        object=st.one_of(
            st.none(),
            st.builds(ObjectReference, name=words, namespace=words, uid=words, api_version=st.sampled_from(["", "v1"])),
        ),
        controller=st.one_of(
            st.none(),
            st.builds(
                ControllerReference,
                name=words,
                namespace=words,
                uid=words,
                kind=words,
                controller=st.sampled_from([None, True, False]),
            ),
        ),
        label_selector=st.one_of(st.none(), selectors),
    ),
    max_size=3,
)
pods = st.builds(
    PodIdentity,
    namespace=words,
    name=words,
    uid=words,
    labels=labels,
    owners=st.lists(
        st.builds(OwnerReference, name=words, uid=words, kind=words, controller=st.booleans()), max_size=2
    ).map(tuple),
)


def available(name: str, uid: str, owned_by: Sequence[ReservationOwner]) -> ReservedCapacity:
    return ReservedCapacity(
        name=name, uid=uid, revision=1, phase="Available", node="n", usable=True, owners=list(owned_by)
    )


def holding(uids: Sequence[str]) -> Capacity:
    nodes = Nodes()
    nodes.see_node("n", Node(name="n", uid="n", version=1))
    capacity = Capacity(nodes, Quotas())
    for uid in uids:
        capacity.apply(Claim(("", uid), uid, "n", {}, is_reservation=True), 1)
    return capacity


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["r0", "r1", "r2"]), st.sampled_from(["u0", "u1", "u2"]), st.none() | owners),
        max_size=8,
    ),
    pods,
)
def test_an_owner_finds_all_of_its_reservations_and_no_other(
    seen: list[tuple[str, str, list[ReservationOwner] | None]], pod: PodIdentity
) -> None:
    reservations = Reservations()
    capacity = holding(["u0", "u1", "u2"])
    for name, uid, owned_by in seen:
        reservations.see(name, None if owned_by is None else available(name, uid, owned_by))
    wish = ReservationRequest(pod)
    expected = {uid for uid, known in reservations.known.items() if compile_owners(known.capacity.owners).accept(pod)}
    found = [offer.known.capacity.uid for offer in reservations.matching(wish, capacity)]
    assert sorted(found) == sorted(expected)
    checked = {offer.known.capacity.uid: failed for offer, failed in reservations.checked(wish, capacity)}
    assert checked == {uid: None if uid in expected else "owners" for uid in reservations.known}


def test_reservations_of_others_are_not_looked_at() -> None:
    looked_at = []

    class Watched(dict[str, object]):
        def __getitem__(self, uid: str) -> object:
            looked_at.append(uid)
            return super().__getitem__(uid)

        def items(self) -> object:  # type: ignore[override]
            raise AssertionError("all of them were gone through")

    reservations = Reservations()
    foreign = [
        [ReservationOwner(object=ObjectReference(namespace="other", name=f"p{index}"))]
        if index % 2
        else [ReservationOwner(label_selector=LabelSelector(match_labels={"team": "a", "job": f"j{index}"}))]
        for index in range(200)
    ]
    for index, owned_by in enumerate(foreign):
        reservations.see(f"r{index}", available(f"r{index}", f"u{index}", owned_by))
    reservations.see("mine", available("mine", "mine", [ReservationOwner(object=ObjectReference(name="p"))]))
    capacity = holding([*(f"u{index}" for index in range(200)), "mine"])
    reservations.known = Watched(reservations.known)  # type: ignore[assignment]
    wish = ReservationRequest(PodIdentity("default", "p", "uid-p", {"team": "a", "job": "j1"}))
    assert [offer.name for offer in reservations.matching(wish, capacity)] == ["mine"]
    assert set(looked_at) <= {"mine", "u0"}  # one of them stands under the label that all of them have
