from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.cli.demo.grants import grants_of, percent_held, shared_minor
from berth.cli.errors import CliError
from berth.cli.load.pods import Fate
from berth.cli.replay import load
from berth.cli.replay.figures import figures_of, gpu_percent, laws_of, percentile, shapes_of, sustained_rate
from berth.cli.replay.report import report
from berth.cli.replay.settings import ReplayOptions, trace_folder
from berth.contracts import names
from berth.invariants import World, check


def held(*grants: tuple[int, int]) -> dict[str, str]:
    gpus = [{"minor": minor, "resources": {names.GPU_CORE: core}} for minor, core in grants]
    return {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": gpus})}


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_enough_values_do_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6


def test_percentiles_of_nothing() -> None:
    assert math.isnan(percentile([], 0.5))


def test_the_sustained_rate_leaves_out_both_ends() -> None:
    steady = [index / 100 for index in range(1000)]
    assert sustained_rate(steady) == pytest.approx(100)
    assert sustained_rate([*steady[:-1], 500.0]) == pytest.approx(100)
    assert sustained_rate([]) == 0.0
    assert sustained_rate([1.0] * 100) == 0.0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"gpu": 3}', '{"gpu": [{"resources": {"koordinator.sh/gpu-core": "x"}}]}']
)
def test_malformed_allocations_count_nothing(text: str) -> None:
    annotations = {names.ANNOTATION_DEVICE_ALLOCATED: text}
    assert gpu_percent(annotations) == 0
    assert grants_of("a", Fate(node="n", annotations=annotations)) == []


def test_figures_of_a_small_fill() -> None:
    fates = {
        "d/a": Fate(sent=0.0, bound=1.0, node="n", annotations=held((0, 100), (1, 100))),
        "d/b": Fate(sent=0.5, bound=2.0, node="n", annotations=held((2, 40))),
        "d/c": Fate(sent=1.0, refusal="no capacity"),
        "d/d": Fate(sent=1.0),
    }
    found = figures_of(fates, trace="t", nodes=1, gpus=4)
    assert (found.pods, found.bound, found.refused, found.unexplained) == (4, 2, 1, 1)
    assert found.allocated == pytest.approx(0.6)
    assert found.rate == pytest.approx(1.0)
    assert (found.latency_p50_ms, found.latency_p99_ms) == (1000, 1500)
    told = "\n".join(report(found))
    assert "60.00 %" in told
    assert "INCOMPLETE" in told


def test_a_law_that_was_not_judged_is_not_called_kept_and_ends_well() -> None:
    found = figures_of({"d/a": Fate(sent=0.0, bound=1.0, node="n")}, trace="t", nodes=1, gpus=4)
    found.laws = laws_of(check(World.of()))
    lines = report(found)
    at = lines.index("  -        No node reports a device in use beyond a whole.")
    assert lines[at + 1] == "           not judged: no node reports devices in use"
    assert "  ok       No node holds more than it offers." in lines
    assert found.good


def test_a_shared_minor_is_found_with_the_pod_that_was_asked_for() -> None:
    fates = {
        "d/a": Fate(node="n", annotations=held((0, 30))),
        "d/b": Fate(node="n", annotations=held((0, 30))),
        "d/c": Fate(node="n", annotations=held((1, 60))),
        "d/e": Fate(node="n", annotations=held((1, 40))),
        "d/f": Fate(node="m", annotations=held((1, 40))),
    }
    pair = shared_minor(fates, "d/e")
    assert pair is not None
    assert [grant.pod for grant in pair] == ["d/e", "d/c"]
    assert percent_held(fates) == 200
    assert shared_minor({"d/a": fates["d/a"], "d/f": fates["d/f"]}, "d/a") is None


# --- traces ----------------------------------------------------------------------------------------------------------

NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,64000,262144,2,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\npod-0,1000,1024,1,500\n"


def test_a_trace_is_read_and_a_list_without_times_cannot_be_timed(tmp_path: Path) -> None:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS)
    trace = load.read(ReplayOptions(folder=tmp_path))
    assert (trace.nodes, trace.gpus, len(trace.pods)) == (1, 2, 1)
    with pytest.raises(CliError, match="no times"):
        load.read(ReplayOptions(folder=tmp_path, timed=10))


def test_a_problem_of_a_trace_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES.replace("64000", "many"))
    with pytest.raises(CliError, match=r"openb_node_list_gpu_node.csv:2.*cpu_milli"):
        load.read(ReplayOptions(folder=tmp_path))


def test_the_trace_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BERTH_TRACE_DIR", str(tmp_path))
    assert trace_folder(None) == tmp_path
    assert trace_folder(tmp_path / "..") == tmp_path / ".."
    monkeypatch.delenv("BERTH_TRACE_DIR")
    with pytest.raises(CliError, match="BERTH_TRACE_DIR"):
        trace_folder(None)


def test_shapes_are_told_apart() -> None:
    fates = {
        "d/a": Fate(sent=0.0, bound=1.0, node="n"),
        "d/b": Fate(sent=0.0, refusal="often"),
        "d/c": Fate(sent=0.0, refusal="often"),
        "d/d": Fate(sent=0.0, refusal="once"),
        "d/e": Fate(sent=0.0),
        "d/f": Fate(sent=0.0, bound=1.0, node="n"),
    }
    shapes = {**dict.fromkeys(fates, "npu"), "d/a": "gpu", "d/f": "", "d/unknown": "gpu"}
    found = [(each.shape, each.pods, each.bound, each.refused, each.reason) for each in shapes_of(fates, shapes)]
    assert found == [("gpu", 1, 1, 0, ""), ("npu", 4, 0, 3, "often")]
    figures = figures_of(fates, trace="mixed", nodes=1, gpus=0)
    figures.shapes = shapes_of(fates, shapes)
    lines = report(figures)
    assert "  npu       4      0         3  often" in lines
    assert not any("SHAPE" in line for line in report(figures_of(fates, trace="t", nodes=1, gpus=0)))


def test_a_workload_may_be_made_instead_of_read() -> None:
    trace = load.read(ReplayOptions(generated="mixed", nodes=20, pods=30, seed=1))
    assert (trace.nodes, len(trace.pods)) == (20, 30)
    assert all(pod.shape and pod.name.startswith("default/") for pod in trace.pods)
    with pytest.raises(CliError, match="--nodes: must be"):
        load.read(ReplayOptions(generated="mixed", nodes=0))
