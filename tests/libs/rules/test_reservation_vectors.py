"""The reference cases of the rules of Reservations: sizes, amounts, scores, and what stands in for one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.rules.node_fit import in_order as in_order_of_reasons
from berth.rules.reservation_exact import sizes_are_equal
from berth.rules.reservation_fit import Matched, Room, allocated_of, available_of, fit, node_lacks, tracked_names
from berth.rules.reservation_ignored_resources import IgnoredResources
from berth.rules.reservation_inner import inner_part_of
from berth.rules.reservation_score import (
    PREFERRED,
    Rated,
    nominate,
    normalised,
    order_of,
    preferred,
    reservation_score,
)
from berth.testing.vectors import cases


def ignored_of(given: dict[str, Any]) -> IgnoredResources:
    return IgnoredResources(given.get("ignoredResources", ()), given.get("ignoredResourceGroups", ()))


def room_of(node: dict[str, Any], preemptible: dict[str, int] | None = None) -> Room:
    return Room(
        node["allocatable"],
        node["requested"],
        node["podCount"],
        node.get("allocatedFromMatched", {}),
        preemptible or {},
    )


@pytest.mark.parametrize("case", cases("reservation/exact_match"))
def test_sizes(case: dict[str, Any]) -> None:
    given = case["given"]
    found = sizes_are_equal(given["podRequests"], given["allocatable"], given["resourceNames"])
    assert found is case["expect"]["match"]


@pytest.mark.parametrize("case", cases("reservation/ignored_resources"))
def test_ignored_resources(case: dict[str, Any]) -> None:
    assert (case["given"]["resource"] in ignored_of(case["given"])) is case["expect"]["ignored"]


@pytest.mark.parametrize("case", cases("reservation/node_fit"))
def test_the_node_alone(case: dict[str, Any]) -> None:
    given = case["given"]
    found = node_lacks(given["podRequests"], room_of(given["node"]), ignored=ignored_of(given))
    assert found == case["expect"]["insufficient"]


@pytest.mark.parametrize("case", cases("reservation/fit"))
def test_fit(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    matched = [
        Matched(
            each["name"],
            each["policy"],
            each["names"],
            each["allocatable"],
            each.get("allocated", {}),
            each.get("reserved", {}),
            each.get("podCount", 0),
        )
        for each in given["reservations"]
    ]
    found = fit(
        given["podRequests"],
        room_of(given["node"], given.get("preemptible")),
        matched,
        must=given["affinityRequired"],
        named=given.get("reservationName", ""),
        preemptible_inside=given.get("preemptibleInReservation"),
        ignored=ignored_of(given),
    )
    assert found.fits is expect["fits"]
    if expect["fits"]:
        assert next(iter(found.usable), None) == expect["by"]
    else:
        assert sorted(found.node) == expect["node"]
        short = [{"reservation": each.reservation, "resource": each.resource} for each in found.reservations]
        assert short == expect["reservations"]


@pytest.mark.parametrize("case", cases("reservation/available_amounts"))
def test_what_is_left(case: dict[str, Any]) -> None:
    given = case["given"]
    allocated = allocated_of(given["owners"], given["names"])
    assert allocated == case["expect"]["allocated"]
    held = {name: given["allocatable"][name] for name in given["names"]}
    assert available_of(held, allocated, given.get("reserved", {})) == case["expect"]["available"]


@pytest.mark.parametrize("case", cases("reservation/restricted_names"))
def test_tracked_names(case: dict[str, Any]) -> None:
    given = case["given"]
    found = tracked_names(given["allocatableNames"], given["options"] or ())
    assert sorted(found) == sorted(case["expect"]["names"])


@pytest.mark.parametrize("case", cases("reservation/score"))
def test_score(case: dict[str, Any]) -> None:
    told = case["given"]["reservation"]
    found = reservation_score(case["given"]["podRequests"], told["allocatable"], told.get("allocated", {}))
    assert found == case["expect"]["score"]


@pytest.mark.parametrize("case", cases("reservation/nominate"))
def test_the_one_that_is_taken(case: dict[str, Any]) -> None:
    request = case["given"]["podRequests"]
    rated = [
        Rated(
            each["name"],
            "n",
            order_of(each.get("order", "")),
            reservation_score(request, each["allocatable"], each.get("allocated", {})),
        )
        for each in case["given"]["reservations"]
    ]
    found = nominate(rated)
    assert (found.name if found is not None else None) == case["expect"]["nominated"]
    assert next(preferred(rated), None) == found


@pytest.mark.parametrize("case", cases("reservation/node_score_normalize"))
def test_scores_of_nodes(case: dict[str, Any]) -> None:
    assert normalised(case["given"]["raw"]) == case["expect"]["normalized"]


def test_the_smallest_order_of_all_nodes_goes_first_then_the_fullest() -> None:
    rated = [
        Rated("b20", "b", 20, 100),
        Rated("a3", "a", 3, 10),
        Rated("a-full", "a", 0, 90),
        Rated("c", "c", 0, 50),
        Rated("b-neg", "b", -1, 0),
    ]
    # Of b the order -1, then of the nodes that are left the fuller: order counts among all, and within a node.
    assert [each.name for each in preferred(rated)] == ["b-neg", "b20", "c", "a3", "a-full"]
    assert normalised({}) == {}
    assert PREFERRED > 100


@given(
    st.lists(
        st.builds(
            Rated,
            st.text("abc", min_size=1, max_size=3),
            st.sampled_from(["m", "n", "o"]),
            st.sampled_from([0, 0, -1, 3, 7]),
            st.integers(0, 100),
        ),
        max_size=12,
        unique_by=lambda each: each.name,
    )
)
def test_everyone_has_a_turn_and_a_node_keeps_its_order(rated: list[Rated]) -> None:
    found = list(preferred(rated))
    assert sorted(found) == sorted(rated)
    for node in ("m", "n", "o"):
        mine = [each for each in found if each.node == node]
        if mine:
            assert mine[0] == nominate([each for each in rated if each.node == node])


def test_a_gpu_is_a_gpu_whatever_it_is_called() -> None:
    room = Room({names.PODS: 10, names.NVIDIA_GPU: 4}, {}, 1)
    held = Matched("r", "Aligned", (), {names.KOORD_GPU: 100})
    assert fit({names.NVIDIA_GPU: 1}, room, [held], must=False).usable == ("r",)
    assert fit({names.RDMA: 1}, room._replace(allocatable={**room.allocatable, names.RDMA: 1}), [held], must=False) == (
        fit({names.RDMA: 1}, room._replace(allocatable={**room.allocatable, names.RDMA: 1}), [], must=False)
    )


def test_reasons_keep_kubernetes_order() -> None:
    request = {"memory": 2, "example.com/x": 2, "cpu": 2}
    assert node_lacks(request, Room({}, {}, 0)) == [names.PODS, *in_order_of_reasons([*request])]


@pytest.mark.parametrize(
    ("text", "amounts", "field"),
    [
        ('{"resources":{"cpu":"1"}}', {"cpu": 1000}, ""),
        ('{"resources":{"cpu":"x","memory":"1Ki"}}', {"memory": 1024}, ".resources[cpu]"),
        (f'{{"resources":{{"{names.NVIDIA_GPU}":"1"}}}}', {}, f".resources[{names.NVIDIA_GPU}]"),
        ("[]", {}, ""),
        ("{}", {}, ""),
    ],
)
def test_the_inner_part(text: str, amounts: dict[str, int], field: str) -> None:
    found, problems = inner_part_of({names.ANNOTATION_NODE_RESERVATION: text})
    assert found == amounts
    assert [problem.field.endswith(field) for problem in problems] == [True] * len(problems)
    assert bool(problems) is (bool(field) or text == "[]")


def test_nothing_inner() -> None:
    assert inner_part_of({}) == ({}, [])
