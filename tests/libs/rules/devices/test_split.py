"""Shares of several cards that are divided unevenly."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices.choose import choose_devices
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.request import DeviceRequest, read_request
from berth.rules.devices.slots import NoCapacity, Slot

UNEVEN = {names.ANNOTATION_GPU_SPLIT: "uneven"}
MEMORY = 1_000


def asked(percent: int, cards: int, *, core: bool = True) -> DeviceRequest:
    requests = {names.GPU_SHARED: cards, names.GPU_MEMORY_RATIO: percent}
    answer = read_request(requests | ({names.GPU_CORE: percent} if core else {}), UNEVEN)
    assert isinstance(answer, DeviceRequest), answer
    return answer


def node(*free: int) -> NodeDevices:
    cards = [
        Slot(at, (100, 100, MEMORY, 0, 0, 0), (100 - each, 100 - each, MEMORY - each * 10, 0, 0, 0))
        for at, each in enumerate(free)
    ]
    return NodeDevices({"gpu": cards})


def percents(there: NodeDevices, request: DeviceRequest) -> dict[int, int] | None:
    answer = choose_devices(there, request)
    if isinstance(answer, NoCapacity):
        return None
    assert all(grant.amounts[2] == grant.amounts[1] * 10 for grant in answer["gpu"])
    return {grant.minor: grant.amounts[1] for grant in answer["gpu"]}


@pytest.mark.parametrize(
    ("free", "percent", "cards", "expected"),
    [
        ((100, 100), 80, 2, {0: 80}),
        ((70, 40, 90), 130, 3, {1: 40, 2: 90}),
        ((70, 40, 90), 110, 3, {1: 20, 2: 90}),
        ((30, 30, 30), 90, 3, {0: 30, 1: 30, 2: 30}),
        ((30, 30, 30), 90, 2, None),
        ((50,), 60, 1, None),
    ],
)
def test_the_fewest_cards(free: tuple[int, ...], percent: int, cards: int, expected: dict[int, int] | None) -> None:
    assert percents(node(*free), asked(percent, cards)) == expected


@given(st.lists(st.integers(0, 100), min_size=1, max_size=6), st.integers(1, 300), st.integers(1, 4), st.booleans())
def test_it_is_placed_if_and_only_if_so_few_cards_hold_it(
    free: list[int], percent: int, cards: int, core: bool
) -> None:
    if percent > cards * 100:
        return
    found = percents(node(*free), asked(percent, cards, core=core))
    sizes = [
        size
        for size in range(1, min(cards, len(free)) + 1)
        if any(sum(some) >= percent for some in combinations(free, size))
    ]
    assert (found is not None) == bool(sizes)
    if found is not None:
        assert sum(found.values()) == percent
        assert len(found) == sizes[0]
        assert all(0 < each <= free[minor] for minor, each in found.items())


@pytest.mark.parametrize(
    "requests",
    [
        {names.GPU_SHARED: 2, names.GPU_MEMORY: 5},
        {names.GPU_SHARED: 2, names.GPU_MEMORY_RATIO: 100, names.GPU_CORE: 50},
        {names.GPU_SHARED: 1, names.GPU_MEMORY_RATIO: 101},
        {names.NVIDIA_GPU: 2},
        {names.GPU_MEMORY_RATIO: 50},
    ],
)
def test_what_cannot_be_divided_is_refused_by_name(requests: dict[str, int]) -> None:
    answer = read_request(requests, UNEVEN)
    assert isinstance(answer, Problem)
    assert answer.field == f"metadata.annotations[{names.ANNOTATION_GPU_SPLIT}]"


def test_another_word_is_refused_and_even_is_the_rule() -> None:
    share = {names.GPU_SHARED: 2, names.GPU_MEMORY_RATIO: 100}
    assert isinstance(read_request(share, {names.ANNOTATION_GPU_SPLIT: "odd"}), Problem)
    even = read_request(share, {names.ANNOTATION_GPU_SPLIT: "even"})
    assert isinstance(even, DeviceRequest)
    assert even.split is None
    assert isinstance(read_request({"cpu": 1}, UNEVEN), DeviceRequest)
