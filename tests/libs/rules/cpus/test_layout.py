"""Texts that name CPUs, and where CPUs are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.cpus.cpuset import CPU_MAX, TEXT_LENGTH_MAX, format_cpuset, read_cpuset
from berth.rules.cpus.layout import ANNOTATION_LENGTH_MAX, Cpu, CpuLayout, read_layout


@given(st.frozensets(st.integers(0, CPU_MAX), max_size=64))
def test_lists_survive_a_round_trip(cpus: frozenset[int]) -> None:
    assert read_cpuset(format_cpuset(cpus), "f") == cpus


@pytest.mark.parametrize(
    ("text", "want"), [("", set()), ("\n", set()), ("7,6,3,2", {2, 3, 6, 7}), (" 0-2, 2,9\n", {0, 1, 2, 9})]
)
def test_lists_are_read(text: str, want: set[int]) -> None:
    assert read_cpuset(text, "f") == want


@pytest.mark.parametrize(
    "text",
    ["a", "1-", "-1", "3-1", "1,,2", "0-99999999", str(CPU_MAX + 1), "1:2", "²", "0-7:2/4", "0x3", "1_0", "+1", "1.0"],
)
def test_a_list_that_is_none_is_named(text: str) -> None:
    found = read_cpuset(text, "annotations[x].cpuset")
    assert isinstance(found, Problem)
    assert found.field == "annotations[x].cpuset"
    assert len(found.message) < 200


def test_a_list_that_repeats_itself_costs_its_length() -> None:
    text = ",".join(["0-8191"] * (TEXT_LENGTH_MAX // 7))
    assert read_cpuset(text, "f") == frozenset(range(CPU_MAX + 1))
    assert isinstance(read_cpuset("0," * TEXT_LENGTH_MAX, "f"), Problem)


def annotated(content: Any) -> dict[str, str]:
    return {names.ANNOTATION_CPU_TOPOLOGY: content if isinstance(content, str) else json.dumps(content)}


def row(cpu: int, core: int = 0, socket: int = 0, node: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": cpu, "core": core, "socket": socket, "node": node, **more}


def test_a_layout_is_read_whatever_its_order_and_its_ids() -> None:
    rows = [row(4, 7, 1, 9), row(0, 7, 0, 2), row(2, 7, 0, 2, l3=3), row(1, 7, 1, 9)]
    layout = read_layout(annotated({"detail": rows, "version": 3}))
    assert isinstance(layout, CpuLayout)
    assert list(layout.cpus) == [0, 1, 2, 4]
    assert [(core.socket, core.id, core.zone, core.cpus) for core in layout.cores] == [
        (0, 7, 2, (0, 2)),
        (1, 7, 9, (1, 4)),
    ]
    assert layout.zone_cpus == {2: {0, 2}, 9: {1, 4}}
    assert layout.socket_cpus == {0: {0, 2}, 1: {1, 4}}
    assert (layout.threads, layout.even) == (2, True)


def test_a_node_without_a_layout_has_none() -> None:
    assert read_layout({}) is None
    assert read_layout(annotated("")) is None


def test_nodes_of_one_make_share_a_layout() -> None:
    text = {"detail": [row(0), row(1)]}
    assert read_layout(annotated(text)) is read_layout(annotated(text))
    assert CpuLayout([Cpu(1, 0, 0, 0), Cpu(0, 0, 0, 0)]) == read_layout(annotated(text))


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        {},
        {"detail": []},
        {"detail": [{"id": 0}]},
        {"detail": [row(-1)]},
        {"detail": [row(CPU_MAX + 1)]},
        {"detail": [row(0, core=-1)]},
        {"detail": [row(0, node=2**31)]},
        {"detail": [row(0), row(0, core=1)]},
        {"detail": [row(0, core=3, node=0), row(1, core=3, node=1)]},
        {"detail": [row(0), {"id": "1", "core": 0, "socket": 0, "node": 0}]},
        {"detail": [row(0, core=0.5)]},
        "[" * 10_000,
        " " * (ANNOTATION_LENGTH_MAX + 1),
        "\ud800",
    ],
)
def test_a_layout_that_cannot_be_read_is_named_and_nothing_of_it_counts(content: Any) -> None:
    found = read_layout(annotated(content))
    assert isinstance(found, Problem)
    assert found.field == f"metadata.annotations[{names.ANNOTATION_CPU_TOPOLOGY}]"


def test_a_layout_of_all_cpus_there_can_be_fits() -> None:
    rows = [row(cpu, 2**31 - 1 - cpu // 2, 65_535, 65_535) for cpu in range(CPU_MAX + 1)]
    layout = read_layout(annotated(json.dumps({"detail": rows}, separators=(",", ":"))))
    assert isinstance(layout, CpuLayout)
    assert len(layout.cores) == (CPU_MAX + 1) // 2
