"""What is said to who is ruled out for a reason that no freed capacity changes."""

from __future__ import annotations

import pytest

from berth.placement_solver.core.reasons import refusals_of
from berth.placement_solver.core.registry import Compiled
from berth.placement_solver.core.seams import Rejection
from berth.placement_solver.core.ways_out import way_out
from berth.rules.devices import templates


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("node(s) invalid CPU Topology", "node.koordinator.sh/cpu-topology"),
        ("Unaligned NUMA Hint cause cpu prefer [01] among [01]", "numaTopologyPolicy"),
        ("Insufficient rdma VirtualFunctions", "vfSelector"),
        ("Insufficient Topology Scoped GPU Devices", "requiredTopologyScope"),
        ("Insufficient NUMA Scoped Devices", "ask for fewer devices"),
        ("node(s) Unsupported number of GPU requests", "partition"),
        ("Insufficient cpu", ""),
    ],
)
def test_a_reason_has_a_way_out_or_none(reason: str, words: str) -> None:
    assert bool(way_out(reason)) is bool(words)
    assert words in way_out(reason)


def test_what_rules_out_all_nodes_at_once_has_its_way_out_too() -> None:
    (reason,) = refusals_of(Compiled(rejections=(("DeviceShare", Rejection((templates.NO_MATCH,))),)))
    assert "koordinator-system/gpu-shared-resource-templates" in reason.repair
