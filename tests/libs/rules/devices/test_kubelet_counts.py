"""Cards that kubelet picks go by number, and never beside cards that go by minor."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from berth.contracts import names
from berth.contracts.grants import device
from berth.contracts.ledger import Grant
from berth.rules.devices.kubelet_counts import (
    asks_count_alone,
    counts_shown,
    given_both_ways,
    holds_number,
    is_uncounted,
    shown_at_zero,
)

CARD = (device("gpu", 0, {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}),)
NIC = (device("rdma", 0, {names.RDMA: 1}),)
SHOWS = {names.CPU: 1, names.NVIDIA_GPU: 2}


class Holder(NamedTuple):
    amounts: dict[str, int]
    grants: tuple[Grant, ...] = ()
    by_kubelet: bool = False


COUNTED = Holder({names.NVIDIA_GPU: 1})
NOTED = Holder({names.NVIDIA_GPU: 1}, CARD)
SAID = Holder({names.NVIDIA_GPU: 1}, CARD, by_kubelet=True)
SHARED = Holder({names.GPU_CORE: 50, names.GPU_MEMORY_RATIO: 50}, CARD)
ON_NIC = Holder({names.RDMA: 1}, NIC)


@pytest.mark.parametrize(
    ("arriving", "there", "allocatable", "may"),
    [
        (COUNTED, COUNTED, SHOWS, True),
        (COUNTED, NOTED, SHOWS, True),
        (COUNTED, SHARED, SHOWS, False),
        (COUNTED, ON_NIC, SHOWS, True),
        (SHARED, COUNTED, SHOWS, False),
        (SHARED, NOTED, SHOWS, False),
        (SHARED, SHARED, SHOWS, True),
        (SHARED, SAID, SHOWS, True),
        (COUNTED, SAID, SHOWS, True),
        (NOTED, ON_NIC, SHOWS, False),
        (ON_NIC, COUNTED, SHOWS, True),
        (SHARED, COUNTED, {names.NVIDIA_GPU: 0}, False),
        (SHARED, COUNTED, {names.CPU: 1}, True),
        (NOTED, COUNTED, {names.CPU: 1}, True),
    ],
)
def test_by_number_or_by_minor(arriving: Holder, there: Holder, allocatable: dict[str, int], may: bool) -> None:
    assert (given_both_ways([arriving], [there], allocatable) == "") == may
    if not there.by_kubelet:  # who arrives has no cards by kubelet yet
        assert (given_both_ways([there, arriving], [], allocatable) == "") == (
            may and (not counts_shown(allocatable) or there is not NOTED)
        )


def test_what_is_a_number() -> None:
    assert counts_shown(SHOWS) == {names.NVIDIA_GPU}
    assert holds_number({names.AMD_GPU: 2, names.CPU: 1}, NIC)
    assert not holds_number({names.AMD_GPU: 2}, CARD)
    assert not asks_count_alone({names.NVIDIA_GPU: 1, names.RDMA: 1}), "a NIC has a minor"
    assert not asks_count_alone({names.NVIDIA_GPU: 0})
    assert is_uncounted(COUNTED, {names.CPU: 1, names.AMD_GPU: 1})
    assert not is_uncounted(COUNTED, SHOWS)
    assert not is_uncounted(NOTED, {})


def test_kubelet_refuses_what_it_shows_at_0() -> None:
    asked = {names.GPU_CORE: 50, names.NVIDIA_GPU: 0, names.CPU: 1}
    assert shown_at_zero(asked, {names.GPU_CORE: 0, names.NVIDIA_GPU: 0}) == names.GPU_CORE
    assert shown_at_zero(asked, {names.NVIDIA_GPU: 0, names.CPU: 0}) == "", "it does not look at what it does not name"
