"""Who may use a Reservation, and whether it can be used at all."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.kube import (
    ControllerReference,
    LabelSelector,
    ObjectReference,
    OwnerReference,
    Requirement,
    ReservationOwner,
)
from berth.rules.reservation_matchable import reservation_matchable
from berth.rules.reservation_operating import placeholder_matchable
from berth.rules.reservation_owners import OWNERS_MAX, PodIdentity, compile_owners
from berth.testing.vectors import cases


def identity(pod: dict[str, Any]) -> PodIdentity:
    return PodIdentity(
        namespace=pod.get("namespace", "default"),
        name=pod["name"],
        uid=pod.get("uid", ""),
        labels=pod.get("labels", {}),
        owners=msgspec.convert(pod.get("ownerReferences", []), list[OwnerReference]),
    )


@pytest.mark.parametrize("case", cases("reservation/owner_match"))
def test_owner_vector(case: dict[str, Any]) -> None:
    owners = compile_owners(msgspec.convert(case["given"]["owners"], list[ReservationOwner]))
    assert owners.problems == ()
    assert owners.accept(identity(case["given"]["pod"])) is case["expect"]["match"]


@pytest.mark.parametrize("case", cases("reservation/matchable"))
def test_matchable_vector(case: dict[str, Any]) -> None:
    given = case["given"]
    if given["kind"] == "Pod":
        is_able = placeholder_matchable(phase=given["phase"], ready=given["ready"], node=given["nodeName"])
        assert is_able is case["expect"]["matchable"]
        return
    answer = reservation_matchable(
        phase=given["phase"],
        node=given.get("nodeName", ""),
        owners_readable=not given.get("ownersBroken", False),
        users=given.get("ownerPods", 0),
        allocate_once=given.get("allocateOnce", True),
    )
    assert answer is case["expect"]["matchable"]


def test_a_used_reservation_of_one_user_is_closed() -> None:
    assert not reservation_matchable(phase="Available", node="n", owners_readable=True, users=1)
    assert not reservation_matchable(phase="Available", node="", owners_readable=True)


POD = PodIdentity("ns", "p", "uid-1", {"a": "b"}, (OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="r"),))


@pytest.mark.parametrize(
    ("wanted", "accepted"),
    [
        (ObjectReference(uid="uid-1", name="p", namespace="ns", api_version="v1"), True),
        (ObjectReference(uid="uid-2"), False),
        (ObjectReference(namespace="other"), False),
        (ObjectReference(api_version="v2"), False),
    ],
)
def test_object_owners(wanted: ObjectReference, accepted: bool) -> None:
    assert compile_owners([ReservationOwner(object=wanted)]).accept(POD) is accepted


def test_all_fields_of_a_controller_are_found_in_one_reference() -> None:
    references = (OwnerReference(kind="Job", name="x"), OwnerReference(kind="ReplicaSet", name="y"))
    pod = POD._replace(owners=references)
    mixed = ReservationOwner(controller=ControllerReference(kind="Job", name="y"))
    exact = ReservationOwner(controller=ControllerReference(kind="ReplicaSet", name="y"))
    assert not compile_owners([mixed]).accept(pod)
    assert compile_owners([mixed, exact]).accept(pod)


def test_a_broken_selector_closes_the_whole_reservation() -> None:
    broken = ReservationOwner(
        label_selector=LabelSelector(match_expressions=[Requirement(key="a", operator="Like", values=["b"])])
    )
    owners = compile_owners([ReservationOwner(), broken])
    assert [problem.field for problem in owners.problems] == [
        "spec.owners[1].labelSelector.matchExpressions[0].operator"
    ]
    assert not owners.accept(POD)


def test_too_many_owners_close_it_too() -> None:
    owners = compile_owners([ReservationOwner()] * (OWNERS_MAX + 1))
    assert owners.problems
    assert not owners.accept(POD)


words = st.sampled_from(["", "p", "q"])
some_owners = st.lists(
    st.builds(ReservationOwner, object=st.one_of(st.none(), st.builds(ObjectReference, name=words, namespace=words))),
    max_size=3,
)


@given(some_owners, some_owners, words, words)
def test_owners_are_alternatives(
    some: list[ReservationOwner], more: list[ReservationOwner], namespace: str, name: str
) -> None:
    pod = PodIdentity(namespace, name)
    both = compile_owners([*some, *more]).accept(pod)
    assert both == (compile_owners(some).accept(pod) or compile_owners(more).accept(pod))
