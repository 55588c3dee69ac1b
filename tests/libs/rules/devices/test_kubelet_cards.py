"""Kubelet's word about the cards that it has picked: read as it was written, bounded; no card is two pods'."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.state import PodTemplate
from berth.rules.devices import kubelet_cards
from berth.rules.devices.kubelet_cards import (
    LENGTH_MAX,
    PODS_MAX,
    picked_grants,
    read_kubelet_cards,
    write_kubelet_cards,
)
from berth.rules.devices.kubelet_counts import NUMBER
from berth.rules.records.evidence import held_by_pod
from berth.testing.builders import gpu_grant


def read(text: str) -> Any:
    return read_kubelet_cards({names.ANNOTATION_KUBELET_CARDS: text})


@given(st.permutations(range(6)), st.integers(0, 6))
def test_it_is_read_as_it_was_written(minors: list[int], cut: int) -> None:
    cards = {uid: some for uid, some in (("b", minors[:cut]), ("a", minors[cut:])) if some}
    assert read(write_kubelet_cards(cards)) == {uid: tuple(sorted(some)) for uid, some in cards.items()}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"a":["0"]}',
        '{"a":[-1]}',
        '{"a":[0],"b":[0]}',
        '{"a":[1,1]}',
        "[" * 100_000,
        "x" * (LENGTH_MAX + 1),
        write_kubelet_cards({f"{each}": [each] for each in range(PODS_MAX + 1)}),
    ],
)
def test_what_cannot_be_is_named(text: str) -> None:
    found = read(text)
    assert isinstance(found, Problem)
    assert found.field == kubelet_cards.FIELD


def test_nothing_is_said_where_nothing_stands() -> None:
    assert read_kubelet_cards({}) == {} == read("")


def test_a_pod_holds_whole_cards_that_are_listed() -> None:
    listed = [
        SimpleNamespace(kind="gpu", minor=0, amounts={names.GPU_MEMORY: 7, names.GPU_CORE: 100}),
        SimpleNamespace(kind="gpu", minor=1, amounts={}),
        SimpleNamespace(kind="rdma", minor=2, amounts={}),
    ]
    held = picked_grants({"a": (1, 0), "b": (2,), "c": ()}, listed)
    whole = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}
    assert {uid: [(each.minor, each.amounts) for each in grants] for uid, grants in held.items()} == {
        "a": [(0, {names.GPU_MEMORY: 7, **whole}), (1, whole)]
    }


@pytest.mark.parametrize(
    ("picked", "decided", "unreadable", "by_kubelet"),
    [
        ((gpu_grant(0), gpu_grant(1)), None, (), True),
        ((gpu_grant(0), gpu_grant(1)), (), (), True),
        ((gpu_grant(0),), None, (NUMBER,), False),
        (None, None, (NUMBER,), False),
        ((gpu_grant(0), gpu_grant(1)), (gpu_grant(2), gpu_grant(3)), (), False),
    ],
)
def test_it_counts_where_it_says_all_and_nobody_else_says_anything(
    picked: Any, decided: Any, unreadable: tuple[str, ...], by_kubelet: bool
) -> None:
    held = held_by_pod(PodTemplate(requests={names.NVIDIA_GPU: 2}), decided, picked)
    assert (held.unreadable, held.by_kubelet) == (unreadable, by_kubelet)
    assert held.grants == (picked if by_kubelet else decided or ())


def test_of_other_requests_it_says_nothing() -> None:
    held = held_by_pod(PodTemplate(requests={names.NVIDIA_GPU: 1, names.RDMA: 1}), None, (gpu_grant(0),))
    assert (held.unreadable, held.by_kubelet) == (("devices",), False), "which NIC it has nobody knows"
    assert held_by_pod(PodTemplate(requests={names.CPU: 1}), None, (gpu_grant(0),)).grants == ()
