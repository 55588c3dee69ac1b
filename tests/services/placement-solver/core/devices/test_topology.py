"""GPUs close together: the worked node, and what place may never change."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.placement_solver.core.devices import (
    GPU,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    SCOPES,
    Grant,
    NoCapacity,
    Slot,
    allocate,
    allocate_gpus,
    charge,
    gpu_want,
    scoring_of,
)

GI = 1 << 30
WHOLE = GPU.vector({names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 80 * GI})


def part(percent: int) -> tuple[int, ...]:
    return tuple(amount * percent // 100 for amount in WHOLE)


def machine(used: dict[int, int]) -> tuple[Slot, ...]:
    """Eight GPUs, four on each NUMA node, two on each PCIe root."""
    return tuple(Slot(m, WHOLE, part(used.get(m, 0)), numa=m // 4, pcie=f"pci{m // 2}") for m in range(8))


def minors(answer: tuple[Grant, ...] | NoCapacity) -> list[int]:
    assert not isinstance(answer, NoCapacity)
    return [grant.minor for grant in answer]


def percent_want(percent: int, cards: int = 0):
    request = {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent} | ({names.GPU_SHARED: cards} if cards else {})
    want = gpu_want(request)
    assert want is not None
    return want


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(100, [3]), (200, [0, 1]), (300, [0, 1, 3]), (400, [4, 5, 6, 7]), (500, [0, 1, 3, 4, 5]), (50, [3])],
)
def test_requests_fill_what_is_broken_into(percent: int, expected: list[int]) -> None:
    assert minors(allocate_gpus(machine({2: 100}), percent_want(percent))) == expected


def test_eight_do_not_fit_beside_a_used_one() -> None:
    assert allocate_gpus(machine({2: 100}), percent_want(800)) == NoCapacity("Insufficient GPU Devices")


def test_two_halves_take_any_minors() -> None:
    answer = allocate_gpus(machine({2: 100}), percent_want(100, cards=2))
    assert minors(answer) == [0, 1]


@pytest.mark.parametrize(
    ("scope", "percent", "expected"),
    [("PCIe", 200, [0, 1]), ("PCIe", 300, None), ("NUMANode", 400, [4, 5, 6, 7]), ("Device", 100, None)],
)
def test_a_required_scope_holds_all_or_refuses(scope: str, percent: int, expected: list[int] | None) -> None:
    answer = allocate_gpus(machine({2: 100}), percent_want(percent), scope=SCOPES[scope])
    if expected is None:
        assert answer == NoCapacity("Insufficient Topology Scoped GPU Devices")
    else:
        assert minors(answer) == expected


def test_without_places_a_scope_cannot_be_kept() -> None:
    flat = (Slot(0, WHOLE, GPU.zero), *machine({})[1:])
    assert minors(allocate_gpus(flat, percent_want(200))) == [0, 1]
    refused = allocate_gpus(flat, percent_want(200), scope=SCOPES["PCIe"])
    assert refused == NoCapacity("node(s) missing GPU Device Topology Tree", unresolvable=True)


def test_a_device_that_has_gone_does_not_take_the_tree_with_it() -> None:
    slots = charge(machine({})[:4], [Grant(9, WHOLE)])
    assert minors(allocate_gpus(slots, percent_want(200), scope=SCOPES["PCIe"])) == [0, 1]


def test_reserved_minors_are_preferred_in_the_tree_too() -> None:
    assert minors(allocate_gpus(machine({}), percent_want(200), preferred={6, 7})) == [6, 7]
    assert minors(allocate_gpus(machine({}), percent_want(30), preferred={5})) == [5]
    assert minors(allocate_gpus(machine({}), percent_want(200), required={1, 6})) == [1, 6]


def test_a_share_follows_the_policy_within_its_scope() -> None:
    slots = machine({0: 30, 1: 60})
    assert minors(allocate_gpus(slots, percent_want(20), scoring=scoring_of(GPU, MOST_ALLOCATED))) == [1]
    assert minors(allocate_gpus(slots, percent_want(20), scoring=scoring_of(GPU, LEAST_ALLOCATED))) == [0]


used_parts = st.dictionaries(st.integers(0, 7), st.integers(0, 120), max_size=8)
asked = st.one_of(st.integers(1, 100), st.sampled_from([200, 300, 400, 500, 700, 800]))


@given(used_parts, asked, st.randoms(use_true_random=False))
def test_place_never_changes_whether_a_request_fits(used: dict[int, int], percent: int, shuffle: random.Random) -> None:
    slots, want = machine(used), percent_want(percent)
    near, any_ = allocate_gpus(slots, want), allocate(slots, want)
    assert isinstance(near, NoCapacity) == isinstance(any_, NoCapacity)
    if isinstance(near, NoCapacity):
        return
    assert len(near) == want.instances
    assert all(grant.amounts == any_[0].amounts for grant in near)
    mixed = list(slots)
    shuffle.shuffle(mixed)
    assert allocate_gpus(mixed, want) == near
