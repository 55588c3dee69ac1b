"""Every decision comes to an end, and every bind is one that was decided: I4, I5."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.invariants.worlds import check_of, decision, ledger, node, on_gpu, pod, reservation

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Allocation, DeviceGrant, PlanStatus, Step

# --- I4 ---------------------------------------------------------------------------------------------------------------


def test_a_decision_that_nobody_carried_out() -> None:
    assert check_of(pods=[pod("a")], ledger=ledger(decision("a"))) == ["I4"]
    assert check_of(pods=[pod("a")], ledger=ledger(decision("a"), status=None)) == ["I4"]
    assert check_of(pods=[pod("a")], ledger=ledger(decision("a")), is_quiet=False) == []


def test_a_nomination_that_nobody_carried_out_takes_nothing_and_has_to_end() -> None:
    def taking(**more: Any) -> dict[str, tuple[int, bytes]]:
        return ledger(decision("a", allocation=Allocation(amounts={names.CPU: 10**9}), **more))

    assert check_of(pods=[pod("a")], nodes=[node("n1")], ledger=taking(nominates=True)) == ["I4"]
    assert "I1b" in check_of(pods=[pod("a")], nodes=[node("n1")], ledger=taking())


def test_decisions_that_came_to_their_end() -> None:
    assert check_of(pods=[pod("a", "n1")], ledger=ledger(decision("a"))) == []
    assert check_of(ledger=ledger(decision("a"))) == []
    assert check_of(pods=[pod("a")], ledger=ledger(decision("a", uid="predecessor"))) == []
    assert check_of(pods=[pod("a")], ledger=ledger(decision("a"), status=PlanStatus.ABORTED)) == []


def test_an_open_plan_with_decisions() -> None:
    assert check_of(ledger=ledger(decision("a"), status=PlanStatus.OPEN)) == ["I4"]


def test_a_reservation_that_was_not_placed() -> None:
    held = ledger(decision("r1", namespace="", kind="reservation"))
    waiting = {**reservation(), "status": {"phase": "Pending"}}
    assert check_of(reservations=[waiting], ledger=held) == ["I4"]
    assert check_of(reservations=[reservation()], ledger=held) == []


def test_keys_of_another_epoch_are_not_read() -> None:
    entries = ledger()
    entries[subjects.decision_key(7, "default", "a")] = (9, encode(decision("a")))
    assert check_of(pods=[pod("a")], ledger=entries) == []


# --- I5 ---------------------------------------------------------------------------------------------------------------


def test_a_pod_bound_without_a_plan() -> None:
    assert check_of(pods=[pod("a", "n1", plan="")]) == ["I5"]
    assert check_of(pods=[pod("a", "n1", plan="", scheduler="default-scheduler")]) == []


def test_a_pod_bound_elsewhere_than_decided() -> None:
    assert check_of(pods=[pod("a", "n2")], ledger=ledger(decision("a", "n1"))) == ["I5"]


def test_devices_other_than_decided() -> None:
    def decided(minor: int) -> dict[str, tuple[int, bytes]]:
        amounts = {names.GPU_CORE: 50, names.GPU_MEMORY_RATIO: 50}
        return ledger(
            decision("a", allocation=Allocation(devices=[DeviceGrant(kind="gpu", minor=minor, amounts=amounts)]))
        )

    assert check_of(pods=[on_gpu("a", 0, 50)], ledger=decided(0)) == []
    assert check_of(pods=[on_gpu("a", 0, 50)], ledger=decided(1)) == ["I5"]
    counted = [pod("a", "n1", {names.NVIDIA_GPU: "1"})]
    assert check_of(pods=counted) == ["I5"]
    assert check_of(pods=counted, nodes=[node("n1", **{names.AMD_GPU: "2"})]) == ["I5"]
    assert check_of(pods=counted, nodes=[node("n1", **{names.NVIDIA_GPU: "2"})]) == [], "kubelet picks its card"


def test_a_successor_bound_by_its_predecessors_decision() -> None:
    assert check_of(pods=[pod("a", "n1")], ledger=ledger(decision("a", uid="predecessor"))) == ["I5"]


def test_a_second_decision_for_a_bound_pod() -> None:
    assert check_of(pods=[pod("a", "n1", plan="plan-0")], ledger=ledger(decision("a"))) == ["I5"]


@pytest.mark.parametrize("fields", [{"quota": "/blue"}, {"reservation_uid": "uid-r1"}])
def test_a_charge_other_than_decided(fields: dict[str, str]) -> None:
    assert check_of(pods=[pod("a", "n1")], ledger=ledger(decision("a", **fields))) == ["I5"]


def test_who_is_taken_over_notes_another_reservation_than_its_own_decision() -> None:
    note = {names.ANNOTATION_RESERVATION_ALLOCATED: '{"name":"r1","uid":"uid-r1"}'}
    taken = pod("a", "n1", {"cpu": "4"}, notes=note, labels={"app": "db"})
    step = Step(action="take-over", namespace="default", pod="a", pod_uid="uid-a")
    taker = decision("r1", namespace="", kind="reservation", before=[step])
    edited = reservation(preAllocation=False)  # after it was placed
    assert check_of(pods=[taken], reservations=[edited], ledger=ledger(decision("a"), taker)) == []
    other = decision("r1", namespace="", kind="reservation")
    assert check_of(pods=[taken], reservations=[edited], ledger=ledger(decision("a"), other)) == ["I5"]
    wide = reservation(preAllocation=False, owners=[], preAllocationPolicy={"mode": "Cluster"})
    assert check_of(pods=[taken], reservations=[wide], ledger=ledger(decision("a"), taker)) == []
    ended = {**edited, "status": {"phase": "Failed", "nodeName": "n1"}}
    assert check_of(pods=[taken], reservations=[ended], ledger=ledger(decision("a"))) == []
