"""`berth replay` of a small trace that is written here: filled, timed, with two solvers, and with kills."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from berth.cli.stack.services import SERVICES

pytestmark = pytest.mark.e2e

NODES = 8
GPUS_PER_NODE = 4


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pods that ask for more GPUs than there are."""
    folder = tmp_path_factory.mktemp("trace")
    nodes = [f"node-{i},64000,262144,{GPUS_PER_NODE},T4" for i in range(NODES)]
    (folder / "openb_node_list_gpu_node.csv").write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *nodes]))
    rng = random.Random(5)
    rows = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time"]
    for number in range(90):
        gpus, milli = rng.choice([(0, 0), (1, 300), (1, 500), (1, 1000), (2, 1000)])
        rows.append(f"pod-{number},1000,2048,{gpus},{milli},{number},{number + 20}")
    (folder / "openb_pod_list_default.csv").write_text("\n".join(rows))
    return folder


def test_a_fill_is_complete_and_correct(berth: Any, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    ran = berth("replay", str(trace), "--json", str(out), "--solvers", "2")
    assert ran.code == 0, ran.out + ran.err
    figures = json.loads(out.read_bytes())
    assert figures["pods"] == 90
    assert figures["bound"] + figures["refused"] == 90
    assert figures["bound"] > 40
    assert figures["refused"] > 0
    assert figures["unexplained"] == 0
    assert figures["violations"] == []
    assert 0.9 < figures["allocated"] <= 1.0
    assert [law["name"] for law in figures["laws"] if law["not_judged"]] == ["I1c", "I1d"], "no koordlet runs here"
    assert {"nats-server", "placement-solver", "placement-solver-1"} <= {row["process"] for row in figures["processes"]}
    assert berth.left_behind() == []


def test_pods_can_come_and_go_at_their_times(berth: Any, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    ran = berth("replay", "--timed", "20", "--json", str(out), env={"BERTH_TRACE_DIR": str(trace)})
    assert ran.code == 0, ran.out + ran.err
    figures = json.loads(out.read_bytes())
    assert figures["bound"] == 90
    assert figures["allocated"] == 0.0


def test_killing_every_service_and_the_bus_loses_nothing(berth: Any, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    ran = berth("replay", str(trace), "--kill", "--rate", "4", "--json", str(out))
    assert ran.code == 0, ran.out + ran.err
    figures = json.loads(out.read_bytes())
    run = [each for each in SERVICES if not each.on_request]
    assert figures["kills"] == len(run) + 1, "every service that runs, and the bus"
    assert figures["bound"] + figures["refused"] == 90
    starts = {row["process"]: row["starts"] for row in figures["processes"]}
    assert all(starts[name] >= 2 for name in starts if name not in ("berth (load)", "simulated-api"))


def test_a_workload_of_every_shape_is_bound_or_told_why(berth: Any, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    ran = berth("replay", "--generated", "mixed", "--nodes", "40", "--pods", "300", "--json", str(out))
    assert ran.code == 0, ran.out + ran.err
    figures = json.loads(out.read_bytes())
    assert (figures["trace"], figures["nodes"], figures["pods"]) == ("mixed", 40, 300)
    assert figures["bound"] + figures["refused"] == 300
    shapes = {each["shape"]: each for each in figures["shapes"]}
    assert sum(each["pods"] for each in shapes.values()) == 300
    assert shapes["plain"]["bound"] == shapes["plain"]["pods"]
    assert all(each["reason"] for each in shapes.values() if each["refused"])
