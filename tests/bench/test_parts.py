"""Parts of the benchmarks that say what is right: the bound, lists of pods that are made, what is written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bound import bound
from mixes import pods_of
from told import FOLDER, tell

from berth.simcluster.generate.build import PodRequest
from berth.simcluster.openb import TraceNode

NODE = TraceNode("n", 8000, 1000, 1, "G2")


def share(milli: int, cpu: int = 1000) -> PodRequest:
    return PodRequest(cpu, 10, 1, milli)


@pytest.mark.parametrize(
    ("pods", "needed", "percent"),
    [
        ([share(600)] * 3, 0, 60.0),
        ([share(600), share(400), share(300)], 0, 100.0),
        ([share(600), share(300), share(300)], 2, 90.0),
        ([share(500, cpu=6000)] * 2, 0, 200 / 3),  # pooled: four thirds of a pod have cores
        ([share(600)] * 3, 2, None),
        ([PodRequest(1000, 10, 1, 1000, ("T4",))], 0, 0.0),
        ([PodRequest(1000, 10, 2)], 0, 0.0),
    ],
)
def test_the_bound_of_one_card(pods: list[PodRequest], needed: int, percent: float | None) -> None:
    found = bound([NODE], pods, needed)
    assert found == (None if percent is None else pytest.approx(percent, abs=1e-3))


def test_lists_are_made_as_their_names_say(tmp_path: Path) -> None:
    nodes = ["sn,cpu_milli,memory_mib,gpu,model", "a,96000,1000,8,G2", "b,96000,1000,2,T4"]
    (tmp_path / "openb_node_list_gpu_node.csv").write_text("\n".join(nodes))
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"
    kinds = ["0,0,", "1,500,", "1,1000,", "1,1000,", "8,1000,"]
    for name, spec in (("default", ""), ("gpuspec10", "T4")):
        rows = [f"p{at},1000,10,{kinds[at % 5]}{spec if at % 5 == 2 else ''}" for at in range(1000)]
        (tmp_path / f"openb_pod_list_{name}.csv").write_text("\n".join([head, *rows]))

    def gpus(pod: PodRequest) -> float:
        return pod.gpus * pod.gpu_milli / 1000

    asked = {name: [pod.request for pod in pods_of(tmp_path, name)] for name in ("cpu400", "gpushare30", "multigpu40")}
    bound_pods = [pod.request for pod in pods_of(tmp_path, "gpuspec50")]
    assert sum(not pod.gpus for pod in asked["cpu400"]) / len(asked["cpu400"]) == pytest.approx(0.4, abs=0.01)
    parts = {name: sum(map(gpus, each)) for name, each in asked.items()}
    shares = sum(gpus(pod) for pod in asked["gpushare30"] if 0 < gpus(pod) < 1)
    assert shares / parts["gpushare30"] == pytest.approx(0.3, abs=0.03)
    assert len(asked["gpushare30"]) <= 1000
    several = sum(gpus(pod) for pod in asked["multigpu40"] if pod.gpus > 1)
    assert several / parts["multigpu40"] == pytest.approx(0.4, abs=0.03)
    assert sum(bool(pod.models) for pod in bound_pods if pod.gpus < 8) > 200
    assert pods_of(tmp_path, "cpu400") == pods_of(tmp_path, "cpu400")


def test_what_is_told_is_written_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["tests/bench/bench_this.py", "--few"])
    tell("rates", nodes=3, rate=1.5)
    found = json.loads((tmp_path / "bench_this.json").read_text())
    assert (found["command"], found["tables"]["rates"][-1]) == ("bench_this.py --few", {"nodes": 3, "rate": 1.5})
