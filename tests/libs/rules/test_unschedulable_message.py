"""The text of a pod that no node takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.unschedulable_message import (
    NO_NODES,
    NOTE_BYTES_MAX,
    counted,
    event_note,
    unschedulable_message,
    with_repair,
)
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("kube-scheduler/failure_message"))
def test_vector(case: dict[str, Any]) -> None:
    given = case["given"]
    message = unschedulable_message(
        given["nodeCount"],
        counted(given["reasonsPerNode"]),
        pre_filter=given.get("preFilterMessage", ""),
        post_filter=given.get("postFilterMessage", ""),
    )
    assert message == case["expect"]["message"]


def test_counts_are_sorted_as_texts() -> None:
    assert unschedulable_message(12, {"b": 2, "a": 10}) == "0/12 nodes are available: 10 a, 2 b."


def test_without_a_node_there_is_nothing_to_count() -> None:
    assert unschedulable_message(0, {}) == NO_NODES


def test_a_node_may_count_for_several_reasons() -> None:
    message = unschedulable_message(1, counted([["Insufficient cpu", "Too many pods"]]))
    assert message == "0/1 nodes are available: 1 Insufficient cpu, 1 Too many pods."


def test_what_preemption_said_comes_last() -> None:
    said = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    assert unschedulable_message(2, {"Too many pods": 2}, post_filter=said).endswith(f"2 Too many pods. {said}")


def test_a_repair_follows_after_the_known_text() -> None:
    message = unschedulable_message(1, {"Insufficient cpu": 1})
    assert with_repair(message, "free 1 core") == f"{message} To repair: free 1 core."
    assert with_repair(NO_NODES, "add a node") == f"{NO_NODES}. To repair: add a node."
    assert with_repair(message, "") == message


@given(st.text(max_size=1_200))
def test_a_note_fits_into_an_event(message: str) -> None:
    note = event_note(message)
    assert len(note.encode()) <= NOTE_BYTES_MAX
    if len(message.encode()) <= NOTE_BYTES_MAX:
        assert note == message
    else:
        assert note.endswith(" ...")
        assert message.startswith(note.removesuffix(" ..."))
        assert len(note.encode()) > NOTE_BYTES_MAX - 4
