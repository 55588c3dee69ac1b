"""Capacity against naive sums: free columns, device minors, quotas and what reservations have left."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.grants import device
from berth.contracts.inventory import NodeInventory
from berth.contracts.quota import QuotaGroup
from berth.contracts.state import Node
from berth.placement_solver.core.capacity import Capacity
from berth.placement_solver.core.constraints.device_share import UNREAD, DeviceShare
from berth.placement_solver.core.devices.asked import query_of
from berth.placement_solver.core.nodes import AMOUNT_MAX, Nodes
from berth.placement_solver.core.npu_templates import NpuTemplates
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.seams import Hypothesis, Rejection, Target
from berth.rules.devices.request import DeviceRequest
from berth.rules.ports import read_port, write_port
from berth.testing.builders import gpu_grant, gpu_slots
from berth.transaction.claims import Claim

OFFERED = {names.CPU: 8000, names.PODS: 10}
ROWS = ("n0", "n1")


def capacity() -> Capacity:
    nodes = Nodes(capacity=1)
    for name in ROWS:
        nodes.see_node(name, Node(name=name, uid=name, version=1, allocatable=OFFERED))
        nodes.see_inventory(name, NodeInventory(node=name, version=1, devices=gpu_slots(2)))
    quotas = Quotas()
    quotas.see("", "top", QuotaGroup(tree="", name="top", revision=1))
    quotas.see("", "team", QuotaGroup(tree="", name="team", revision=1, ancestors=["top"]))
    return Capacity(nodes, quotas)


@st.composite
def claims(draw: st.DrawFn) -> list[Claim]:
    """Two reservations and some pods, of which some draw on one, also from another node or before it is there."""
    made = [
        Claim(
            name=("", f"r{index}"),
            uid=f"r{index}",
            node=draw(st.sampled_from(ROWS)),
            amounts={names.CPU: 1000 * draw(st.integers(0, 5))},
            grants=(gpu_grant(0, draw(st.integers(1, 100))),) if draw(st.booleans()) else (),
            is_reservation=True,
            unreadable=("devices",) if draw(st.integers(0, 3)) == 0 else (),
        )
        for index in range(2)
    ]
    for index in range(draw(st.integers(0, 6))):
        made.append(  # noqa: PERF401
            Claim(
                name=("default", f"p{index}"),
                uid=f"p{index}",
                node=draw(st.sampled_from(ROWS)),
                amounts={names.CPU: 1000 * draw(st.integers(0, 4)), names.GPU_CORE: 50},
                grants=(gpu_grant(draw(st.integers(0, 1)), draw(st.integers(1, 60))),),
                quota=draw(st.sampled_from(["", "/team", "/top"])),
                reservation=draw(st.sampled_from(["", "r0", "r1"])),
                unreadable=("devices",) if draw(st.integers(0, 5)) == 0 else (),
            )
        )
    return made


def naive_cpu(held: list[Claim], node: str) -> int:
    pods = [claim for claim in held if not claim.is_reservation and claim.node == node]
    used = sum(claim.amounts.get(names.CPU, 0) for claim in pods)
    for claim in held:
        if claim.is_reservation and claim.node == node:
            drawn = sum(pod.amounts.get(names.CPU, 0) for pod in pods if pod.reservation == claim.uid)
            used += max(0, claim.amounts.get(names.CPU, 0) - drawn)
    return OFFERED[names.CPU] - used


def naive_core(held: list[Claim], node: str, minor: int) -> int:
    def of(claim: Claim) -> int:
        return sum(grant.amounts[names.GPU_CORE] for grant in claim.grants if grant.minor == minor)

    pods = [claim for claim in held if not claim.is_reservation and claim.node == node]
    used = sum(map(of, pods))
    for claim in held:
        if claim.is_reservation and claim.node == node:
            used += max(0, of(claim) - sum(of(pod) for pod in pods if pod.reservation == claim.uid))
    return used


def naive_quota(held: list[Claim], *quotas: str) -> int:
    return sum(claim.amounts.get(names.CPU, 0) for claim in held if claim.quota in quotas)


def check(made: Capacity, held: list[Claim]) -> None:
    nodes = made.nodes
    for name in ROWS:
        row = nodes.row(name)
        pods = [claim for claim in held if not claim.is_reservation and claim.node == name]
        assert nodes.free[0, row] == naive_cpu(held, name)
        assert nodes.free[nodes.columns[names.PODS], row] == OFFERED[names.PODS] - len(pods)
        assert nodes.unreadable[row] == sum(bool(claim.unreadable) for claim in held if claim.node == name)
        for slot in nodes.devices.slots["gpu"][row]:
            assert slot.used[0] == naive_core(held, name, slot.minor)
    assert made.quotas.used(("", "team")).get(names.CPU, 0) == naive_quota(held, "/team")
    assert made.quotas.used(("", "top")).get(names.CPU, 0) == naive_quota(held, "/team", "/top")


@settings(max_examples=200, deadline=None)
@given(claims(), st.data())
def test_capacity_is_the_naive_sum_in_whatever_order_claims_come_and_go(made: list[Claim], data: st.DataObject) -> None:
    tested = capacity()
    held: list[Claim] = []
    for _ in range(3 * len(made)):
        claim = data.draw(st.sampled_from(made))
        if claim in held:
            held.remove(claim)
            tested.apply(claim, -1)
        else:
            held.append(claim)
            tested.apply(claim, 1)
        check(tested, held)
    for uid, reserved in tested.reserved.items():
        assert set(reserved.users) == {(claim.name, claim.uid) for claim in held if claim.reservation == uid}
    for claim in list(held):
        held.remove(claim)
        tested.apply(claim, -1)
    check(tested, [])


@settings(max_examples=100, deadline=None)
@given(claims(), st.data())
def test_what_is_assumed_costs_once_whether_or_not_it_comes_true(made: list[Claim], data: st.DataObject) -> None:
    tested = capacity()
    held: list[Claim] = []
    for claim in made:
        if data.draw(st.booleans()):
            tested.apply(claim, 1)
            tested.assume([claim])
            if data.draw(st.booleans()):
                true = claim if data.draw(st.booleans()) else claim._replace(amounts={names.CPU: 1})
                tested.on_change(true, True)
                held.append(true)
    tested.forget_assumed()
    check(tested, held)


def test_absurd_amounts_never_turn_into_capacity() -> None:
    tested = capacity()
    for index in range(5):
        huge = Claim(("x", f"h{index}"), f"h{index}", "n0", {names.CPU: (1 << 63) - 1, names.MEMORY: 1 << 70})
        tested.apply(huge, 1)
        assert tested.nodes.free[0, 0] <= OFFERED[names.CPU] - AMOUNT_MAX
        assert tested.nodes.free[1, 0] < 0
    tested.nodes.see_node("n0", Node(name="n0", uid="n0", version=2, allocatable={names.CPU: (1 << 63) - 1}))
    assert tested.nodes.free[0, 0] < 0


def test_columns_and_rows_grow() -> None:
    nodes = Nodes(capacity=1)
    for index in range(20):
        offered = {f"example.org/r{column}": index + 1 for column in range(20)}
        nodes.see_node(f"n{index}", Node(name=f"n{index}", uid="u", version=1, allocatable=offered))
        nodes.see_inventory(f"n{index}", NodeInventory(node=f"n{index}", version=1, devices=gpu_slots(index % 10)))
    for index in range(20):
        assert {int(nodes.free[nodes.column(f"example.org/r{column}"), index]) for column in range(20)} == {index + 1}
        assert nodes.gpu_count[index] == index % 10


def test_a_device_that_leaves_and_comes_back_keeps_its_holder() -> None:
    tested = capacity()
    tested.apply(Claim(("d", "p"), "p", "n0", {}, grants=(gpu_grant(1, 100),)), 1)
    tested.nodes.see_inventory("n0", NodeInventory(node="n0", version=2, devices=gpu_slots(1)))
    tested.nodes.see_inventory("n0", NodeInventory(node="n0", version=3, devices=gpu_slots(2)))
    assert [slot.free[0] for slot in tested.nodes.devices.slots["gpu"][0]] == [100, 0]


def test_ports_are_read_as_they_are_written() -> None:
    for text in ("0.0.0.0/TCP/80", "::1/UDP/53", "10.0.0.1/SCTP/1"):
        assert write_port(read_port(text)) == text


def test_other_device_kinds_do_not_disturb() -> None:
    tested = capacity()
    tested.apply(Claim(("d", "p"), "p", "n0", {}, grants=(device("rdma", 0, {names.RDMA: 1}),)), 1)
    assert [slot.free[0] for slot in tested.nodes.devices.slots["gpu"][0]] == [100, 100]


def test_what_is_left_of_a_reservation_says_nothing_of_what_cannot_be_read() -> None:
    tested = capacity()
    kept = Claim(("", "r"), "r", "n0", {}, (gpu_grant(0, 50),), is_reservation=True, unreadable=("devices",))
    pod = Claim(("default", "p"), "p", "n0", {names.GPU_CORE: 50}, unreadable=("devices",))
    for claim in (kept, pod):
        tested.apply(claim, 1)
    share = DeviceShare(tested.nodes, NpuTemplates())
    query = query_of(DeviceRequest({"gpu": {names.GPU_CORE: 10, names.GPU_MEMORY_RATIO: 10}}), {})
    target = Target(tested.nodes.row("n0"), Hypothesis(gone=(tested.reserved["r"].remainder,)))
    assert share.filter(query, target) == Rejection((UNREAD,))
    tested.apply(pod, -1)
    assert share.filter(query, target) == Rejection((UNREAD,))
    tested.apply(kept, -1)
    assert share.filter(query, Target(target.row)) is None
