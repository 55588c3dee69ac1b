"""What every choice of devices keeps, and that it is found whenever there is one."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices import search as searching
from berth.rules.devices.candidates import Narrowing
from berth.rules.devices.choose import choose_devices
from berth.rules.devices.columns import FPGA, GPU, RDMA
from berth.rules.devices.hints import NO_HINT, REQUESTS_AS_COUNT, Hint
from berth.rules.devices.joint_request import SAME_NUMA, SAME_PCIE, JointRequest
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.partition_spec import PartitionSpec
from berth.rules.devices.partitions import BUILT_IN, Partition, PartitionRules
from berth.rules.devices.request import DeviceRequest
from berth.rules.devices.slots import Function, Grant, NoCapacity, Slot, charge, release
from berth.rules.devices.topology import SCOPES
from berth.rules.devices.vendor_limits import Limit

WHOLE = (100, 100, 1000, 0, 0, 0)
NONE = GPU.zero
BOTH = JointRequest(("gpu", "rdma"), SAME_PCIE)


def card(minor: int, numa: int, pcie: str, part: int = 0) -> Slot:
    return Slot(minor, WHOLE, (part, part, part * 10, 0, 0, 0), numa, pcie)


def nic(minor: int, numa: int, pcie: str, part: int = 0, functions: int = 0, busy: int = 0) -> Slot:
    made = tuple(Function(f"{minor:02}.{at}", at) for at in range(functions))
    return Slot(minor, (100,), (part,), numa, pcie, (), made, frozenset(each.bus for each in made[:busy]))


def asked(gpus: int, percent: int = 0, /, *, joint: JointRequest | None = None, **hints: Hint) -> DeviceRequest:
    amounts: dict[str, dict[str, int]] = {}
    if gpus:
        amounts["gpu"] = {names.GPU_CORE: gpus * 100, names.GPU_MEMORY_RATIO: gpus * 100}
    if percent:
        amounts["rdma"] = {names.RDMA: percent}
    return DeviceRequest(amounts, hints, joint)


def minors(answer: Any, kind: str) -> list[int]:
    assert not isinstance(answer, NoCapacity), answer
    return [grant.minor for grant in answer[kind]]


def node_x(*used: int, busy_first: bool = False) -> NodeDevices:
    """Eight cards on four roots, two NUMA nodes, a NIC of two virtual functions on each root."""
    cards = [card(at, at // 4, "ABCD"[at // 2], 100 if at in used else 0) for at in range(8)]
    nics = [nic(at, at // 2, "ABCD"[at], functions=2, busy=2 if busy_first and at == 0 else 0) for at in range(4)]
    return NodeDevices({"gpu": cards, "rdma": nics})


ANY_FUNCTION = Hint(functions=lambda labels: True)


@pytest.mark.parametrize(
    ("cards", "wanted", "near"),
    [(1, [3], [1]), (2, [0, 1], [0]), (3, [0, 1, 3], [0, 1])],
)
def test_nics_follow_the_cards(cards: int, wanted: list[int], near: list[int]) -> None:
    answer = choose_devices(node_x(2), asked(cards, 1, joint=BOTH, rdma=ANY_FUNCTION))
    assert minors(answer, "gpu") == wanted
    assert minors(answer, "rdma") == near


def test_where_the_cards_chosen_first_have_no_nic_others_are_found() -> None:
    node = node_x(2, busy_first=True)
    assert minors(choose_devices(node, asked(2, 1, joint=BOTH, rdma=ANY_FUNCTION)), "gpu") == [4, 5]
    prefers = choose_devices(node, asked(2, 1, joint=JointRequest(("gpu", "rdma")), rdma=ANY_FUNCTION))
    assert minors(prefers, "gpu") == [0, 1]
    assert minors(prefers, "rdma") == [1]


def test_a_virtual_function_is_an_identity() -> None:
    node = node_x()
    held = []
    for _ in range(8):
        answer = choose_devices(node, asked(0, 1, rdma=ANY_FUNCTION))
        assert not isinstance(answer, NoCapacity)
        (grant,) = answer["rdma"]
        held.append((grant.minor, grant.functions[0].bus))
        node = node._replace(slots={**node.slots, "rdma": charge(node.slots["rdma"], answer["rdma"])})
    assert len(set(held)) == 8
    assert choose_devices(node, asked(0, 1, rdma=ANY_FUNCTION)) == NoCapacity("Insufficient rdma devices")
    back = [Grant(3, (1,), (Function("03.1"),))]
    node = node._replace(slots={**node.slots, "rdma": release(node.slots["rdma"], back)})
    answer = choose_devices(node, asked(0, 1, rdma=ANY_FUNCTION))
    assert not isinstance(answer, NoCapacity)
    assert answer["rdma"][0].functions[0].bus == "03.1"


def test_nics_without_functions_give_none() -> None:
    node = NodeDevices({"rdma": [nic(0, 0, "A")]})
    found = choose_devices(node, asked(0, 1, rdma=ANY_FUNCTION))
    assert found == NoCapacity("Insufficient rdma VirtualFunctions", unresolvable=True)


def test_a_whole_root_for_one_pod() -> None:
    exclusive = Hint(strategy=REQUESTS_AS_COUNT, exclusive="PCIeLevel")
    nics = [nic(0, 0, "A"), nic(1, 0, "A", part=1), nic(2, 0, "B"), nic(3, 0, "")]
    node = NodeDevices({"rdma": nics})
    assert minors(choose_devices(node, asked(0, 1, rdma=exclusive)), "rdma") == [2]
    assert minors(choose_devices(node._replace(sealed={"rdma": frozenset("B")}), asked(0, 1)), "rdma") == [0]
    sealed = node._replace(sealed={"rdma": frozenset("B")})
    assert isinstance(choose_devices(sealed, asked(0, 1, rdma=exclusive)), NoCapacity)


@pytest.mark.parametrize(("cards", "chosen"), [(1, [1]), (2, [2, 3]), (4, [4, 5, 6, 7])])
def test_partitions_keep_large_ones_whole(cards: int, chosen: list[int]) -> None:
    node = node_x(0)._replace(partitions=PartitionRules(BUILT_IN, honors=True))
    assert minors(choose_devices(node, asked(cards)), "gpu") == chosen


def test_partitions_say_why_not() -> None:
    node = node_x(0)._replace(partitions=PartitionRules(BUILT_IN, honors=True))
    assert choose_devices(node, asked(3)) == NoCapacity("node(s) Unsupported number of GPU requests", unresolvable=True)
    assert choose_devices(node, asked(8)) == NoCapacity("Insufficient Partitioned GPU Devices")
    free = node_x(0)._replace(partitions=PartitionRules(BUILT_IN, honors=False))
    assert minors(choose_devices(free, asked(3)), "gpu") == [1, 2, 3]


def test_the_best_partitions_come_first_and_a_restricted_pod_takes_no_other() -> None:
    table = {2: (Partition((0, 1), 1), Partition((2, 3), 5))}
    node = node_x()._replace(partitions=PartitionRules(table))
    assert minors(choose_devices(node, asked(2)), "gpu") == [2, 3]
    taken = node_x(2)._replace(partitions=PartitionRules(table))
    restricted = asked(2)._replace(partition=PartitionSpec("Restricted"))
    assert minors(choose_devices(taken, asked(2)._replace(partition=PartitionSpec())), "gpu") == [0, 1]
    assert choose_devices(taken, restricted) == NoCapacity("Insufficient Partitioned GPU Devices")


def test_a_partition_lies_within_the_required_scope() -> None:
    table = {2: (Partition((3, 4), 9), Partition((2, 3), 1))}
    node = node_x()._replace(partitions=PartitionRules(table, honors=True))
    numa = Hint(scope=SCOPES["NUMANode"])
    assert minors(choose_devices(node, asked(2, gpu=numa)), "gpu") == [2, 3]


def test_one_device_is_within_the_scope_of_a_device() -> None:
    device = Hint(scope=SCOPES["Device"])
    assert minors(choose_devices(node_x(2), asked(1, gpu=device)), "gpu") == [3]
    found = choose_devices(node_x(2), asked(2, gpu=device))
    assert found == NoCapacity("Insufficient Topology Scoped GPU Devices")


def test_a_vendor_that_gives_one_card_gives_no_two() -> None:
    node = node_x()._replace(limit=Limit("cambricon", devices=1, memory=256 << 20))
    assert isinstance(choose_devices(node, asked(2)), NoCapacity)
    # The cards of this node have 1,000 bytes, and its dialect counts in 256 MiB.
    assert isinstance(choose_devices(node, asked(1)), NoCapacity)
    large = [slot._replace(total=(100, 100, 1 << 34, 0, 0, 0)) for slot in node.slots["gpu"]]
    assert minors(choose_devices(node._replace(slots={"gpu": large}), asked(1)), "gpu") == [0]


def test_secondary_devices_that_are_well_planned_are_left_for_later() -> None:
    node = node_x()._replace(well_planned=True)
    early = choose_devices(node, asked(2, 1, joint=BOTH), is_final=False)
    assert isinstance(early, dict)
    assert set(early) == {"gpu"}
    late = choose_devices(node, asked(2, 1, joint=BOTH))
    assert isinstance(late, dict)
    assert set(late) == {"gpu", "rdma"}


def test_devices_of_reservations_are_preferred_in_partitions_and_trees() -> None:
    preferred = {"gpu": Narrowing(preferred=frozenset({6, 7}))}
    assert minors(choose_devices(node_x(), asked(2), narrowing=preferred), "gpu") == [6, 7]
    table = node_x()._replace(partitions=PartitionRules(BUILT_IN, honors=True))
    assert minors(choose_devices(table, asked(2), narrowing=preferred), "gpu") == [6, 7]


def test_cards_and_nics_of_the_same_numa_node() -> None:
    cards = [card(0, 0, "A"), card(1, 1, "B")]
    nics = [nic(0, 0, "X", part=100), nic(1, 1, "Y")]
    node = NodeDevices({"gpu": cards, "rdma": nics})
    assert minors(choose_devices(node, asked(1, 1, joint=JointRequest(("gpu", "rdma"), SAME_NUMA))), "gpu") == [1]
    assert isinstance(choose_devices(node, asked(1, 1, joint=BOTH)), NoCapacity)


# Search against all combinations.

PLACES = st.sampled_from([*"ABCDABCD", ""])


@st.composite
def small_nodes(draw: st.DrawFn) -> NodeDevices:
    zone = {"A": 0, "B": 0, "C": 1, "D": 1, "": -1}
    cards = [
        card(at, zone[place], place, draw(st.sampled_from([0, 0, 50, 100])))
        for at, place in enumerate(draw(st.lists(PLACES, min_size=2, max_size=6)))
    ]
    nics = [
        nic(at, zone[place], place, draw(st.sampled_from([0, 0, 100])), 2, draw(st.integers(0, 2)))
        for at, place in enumerate(draw(st.lists(PLACES, min_size=1, max_size=5)))
    ]
    pairs = {1: (Partition((0,)),), 2: (Partition((0, 1)), Partition((1, 2), 1))}
    table = draw(st.sampled_from([None, None, pairs]))
    return NodeDevices({"gpu": cards, "rdma": nics}, PartitionRules(table, table is not None and draw(st.booleans())))


@st.composite
def joint_requests(draw: st.DrawFn) -> DeviceRequest:
    cards = draw(st.integers(1, 3))
    count = draw(st.integers(1, 3))
    hint = Hint(functions=draw(st.none() | st.just(lambda labels: True)), strategy=REQUESTS_AS_COUNT)
    level = draw(st.sampled_from([0, 0, SCOPES["NUMANode"], SCOPES["PCIe"]]))
    types = draw(st.sampled_from([("gpu", "rdma"), ("rdma", "gpu")]))
    scope = draw(st.sampled_from([SAME_PCIE, SAME_NUMA]))
    spec = draw(st.sampled_from([None, None, None, PartitionSpec()]))
    request = asked(cards, count, joint=JointRequest(types, scope), rdma=hint, gpu=NO_HINT._replace(scope=level))
    return request._replace(partition=spec)


def serves(slot: Slot, request: DeviceRequest) -> bool:
    if len(slot.total) == len(WHOLE):
        return not any(slot.used)
    free = {each.bus for each in slot.functions} - slot.busy
    return slot.used == (0,) and (request.hints["rdma"].functions is None or bool(free))


def is_right(node: NodeDevices, request: DeviceRequest, cards: tuple[int, ...], nics: tuple[int, ...]) -> bool:
    """The rule, as it is said: how many, which of them serve, and where they lie."""
    assert request.joint is not None
    gpus, rdmas = [node.slots["gpu"][at] for at in cards], [node.slots["rdma"][at] for at in nics]
    if not all(serves(slot, request) for slot in (*gpus, *rdmas)):
        return False
    by_pcie = request.joint.scope == SAME_PCIE
    places, others = ({slot.pcie if by_pcie else slot.numa for slot in each} for each in (gpus, rdmas))
    if places != others or not all(slot.pcie for slot in (*gpus, *rdmas)):
        return False
    count = request.amounts["rdma"][names.RDMA]
    if len(nics) != (max(count, len(places)) if request.joint.types[0] == "gpu" else count):
        return False
    level = request.hints["gpu"].scope
    if level >= SCOPES["NUMANode"] and len({slot.numa for slot in gpus}) > 1:
        return False
    if level >= SCOPES["PCIe"] and len({slot.pcie for slot in gpus}) > 1:
        return False
    if node.partitions.honors or request.partition is not None:
        table = node.partitions.table or {}
        return any(set(each.minors) == set(cards) for each in table.get(len(cards), ()))
    return True


def all_choices(node: NodeDevices, request: DeviceRequest) -> bool:
    gpus, rdmas = range(len(node.slots["gpu"])), range(len(node.slots["rdma"]))
    count = request.amounts["gpu"][names.GPU_CORE] // 100
    return any(
        is_right(node, request, cards, nics)
        for cards in combinations(gpus, count)
        for size in range(1, len(rdmas) + 1)
        for nics in combinations(rdmas, size)
    )


@given(small_nodes(), joint_requests())
def test_devices_are_found_if_and_only_if_there_are_any(node: NodeDevices, request: DeviceRequest) -> None:
    answer = choose_devices(node, request)
    if isinstance(answer, NoCapacity):
        is_tree_missing = any(not slot.pcie for slot in node.slots["gpu"])
        if not (request.hints["gpu"].scope and is_tree_missing):  # then nobody can say what lies together
            assert not all_choices(node, request)
        return
    chosen = [tuple(grant.minor for grant in answer[kind]) for kind in ("gpu", "rdma")]
    assert is_right(node, request, chosen[0], chosen[1])


@settings(max_examples=100)
@given(small_nodes(), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_nothing_is_given_twice(node: NodeDevices, cards: int, count: int, with_functions: bool) -> None:
    hint = Hint(functions=(lambda labels: True) if with_functions else None, strategy=REQUESTS_AS_COUNT)
    request = asked(cards, count, joint=JointRequest(("gpu", "rdma")), rdma=hint)
    for _ in range(4):
        answer = choose_devices(node, request)
        if isinstance(answer, NoCapacity):
            return
        given_out = Counter(each.bus for grants in answer.values() for grant in grants for each in grant.functions)
        assert max(given_out.values(), default=1) == 1
        for kind, grants in answer.items():
            before = {slot.minor: slot for slot in node.slots[kind]}
            for grant in grants:
                assert all(take <= free for take, free in zip(grant.amounts, before[grant.minor].free, strict=True))
                assert not {each.bus for each in grant.functions} & before[grant.minor].busy
        node = node._replace(slots={kind: charge(node.slots[kind], answer.get(kind, ())) for kind in node.slots})


@given(small_nodes(), joint_requests(), st.randoms(use_true_random=False))
def test_the_order_in_which_devices_are_listed_changes_nothing(
    node: NodeDevices, request: DeviceRequest, random: Any
) -> None:
    mixed = {kind: random.sample(list(slots), len(slots)) for kind, slots in node.slots.items()}
    assert choose_devices(node._replace(slots=mixed), request) == choose_devices(node, request)


def test_the_search_ends_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_x(busy_first=True)
    request = asked(2, 1, joint=BOTH, rdma=ANY_FUNCTION)
    assert not isinstance(choose_devices(node, request), NoCapacity)
    monkeypatch.setattr(searching.search, "__defaults__", (0,))
    assert choose_devices(node, request) == NoCapacity("node(s) Device Joint-Allocate rules violation")


def test_each_family_alone() -> None:
    fpga = Slot(0, (100,), (40,))
    node = NodeDevices({"fpga": [fpga]})
    found = choose_devices(node, DeviceRequest({"fpga": {names.FPGA: 60}}))
    assert found == {"fpga": (Grant(0, (60,)),)}
    assert isinstance(choose_devices(node, DeviceRequest({"fpga": {names.FPGA: 61}})), NoCapacity)
    assert FPGA.zero == RDMA.zero == (0,)
    assert not isinstance(found, Problem)
