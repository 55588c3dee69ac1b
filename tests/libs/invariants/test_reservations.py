"""Reserved capacity is for its owners, one or several as the reservation says: I10, I10b."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.libs.invariants.worlds import broken, check_of, node, on_gpu, pod, reservation, user

from berth.contracts import names
from berth.invariants import World, check


def test_an_owner_uses_its_reservation() -> None:
    assert check_of(pods=[user("a")], reservations=[reservation()], nodes=[node()]) == []


@pytest.mark.parametrize(
    "pods", [[user("a", "web")], [user("a", node="n2")], [user("a", cpu="1"), user("b", cpu="1")]], ids=str
)
def test_wrong_users(pods: Iterable[Any]) -> None:
    assert check_of(pods=pods, reservations=[reservation()]) == ["I10"]


def test_several_users_where_that_is_meant() -> None:
    pods = [user("a", cpu="2"), user("b", cpu="2")]
    assert check_of(pods=pods, reservations=[reservation(allocateOnce=False)], nodes=[node()]) == []


def test_who_is_taken_over_by_another_label_is_listed_as_a_user() -> None:
    spec = {"preAllocation": True, "preAllocationPolicy": {"mode": "Cluster"}}
    assert check_of(pods=[user("a", "web")], reservations=[reservation(**spec)]) == ["I10"]
    taken = reservation(**spec)
    taken["status"]["currentOwners"] = [{"namespace": "default", "name": "a", "uid": "uid-a"}]
    assert check_of(pods=[user("a", "web")], reservations=[taken], nodes=[node()]) == []


def test_reserved_amounts_given_to_a_stranger() -> None:
    capacity = [reservation()]  # 4 of 8 cores
    assert check_of(pods=[pod("a", "n1", {"cpu": "4"})], reservations=capacity, nodes=[node()]) == []
    assert check_of(pods=[pod("a", "n1", {"cpu": "5"})], reservations=capacity, nodes=[node()]) == ["I10b"]
    used = [pod("a", "n1", {"cpu": "4"}), user("b", cpu="4")]
    assert check_of(pods=used, reservations=capacity, nodes=[node()]) == []
    ended = {**reservation(), "status": {"phase": "Failed", "nodeName": "n1", "allocatable": {"cpu": "4"}}}
    assert check_of(pods=[pod("a", "n1", {"cpu": "5"})], reservations=[ended], nodes=[node()]) == []


def test_a_node_that_is_gone_offers_nothing_to_be_given_away() -> None:
    assert check_of(pods=[pod("a", "n1", {"cpu": "5"})], reservations=[reservation()], nodes=[node("n2")]) == []


def test_reserved_devices_given_to_a_stranger() -> None:
    note = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}'
    capacity = [reservation(amounts={names.GPU_CORE: "50"}, notes={names.ANNOTATION_DEVICE_ALLOCATED: note})]
    assert check_of(pods=[on_gpu("a", 0, 50)], reservations=capacity, nodes=[node()]) == []
    report = check(World.of(pods=[on_gpu("a", 0, 51)], reservations=capacity))
    assert broken(report) == ["I10b"]
    assert check_of(pods=[on_gpu("a", 1, 51)], reservations=capacity) == []
