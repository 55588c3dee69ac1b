"""Fragmentation Gradient Descent as a score says what the port of its authors' program says, on random states."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.bench.fgd import Fgd, _Kind, typical_pods

from berth.contracts import names
from berth.contracts.state import Pod
from berth.placement_solver.core.plan import spec_of
from berth.placement_solver.core.ranking import Rated, best
from berth.placement_solver.core.scores.fragmentation import FragmentationScore
from berth.rules.scheduler_config import FragmentationArgs, TypicalPod
from berth.simcluster.generate.build import PodRequest
from berth.simcluster.openb import TraceNode
from berth.testing.builders import gpu_grant, gpu_slots, pod
from berth.transaction.claims import Claim

MODELS = ("G2", "T4", "P100")
WORKLOAD = [
    *[PodRequest(0, 0, 1, 470, ())] * 5,
    *[PodRequest(4000, 0, 1, 810, ())] * 9,
    *[PodRequest(8000, 0, 1, 1000, ())] * 20,
    *[PodRequest(12_000, 0, 1, 1000, ("T4", "P100"))] * 4,
    *[PodRequest(64_000, 0, 8, 1000, ())] * 2,
    *[PodRequest(2000, 0, 0, 0, ())] * 7,
]
"""Of so few that all of them together are what is typical."""


def typical() -> FragmentationArgs:
    """The pods that the port goes by, as a profile lists them."""
    return FragmentationArgs(
        typical_pods=tuple(
            TypicalPod(cpu_milli=cpu, gpus=gpus, gpu_percent=milli // 10 or 100, models=models, count=number)
            for (cpu, milli, gpus, models), number in typical_pods(WORKLOAD)
        )
    )


def pod_of(request: PodRequest) -> Pod:
    builder = pod("p").requests(cpu=request.cpu_milli)
    if request.gpus == 1 and request.gpu_milli < 1000:
        builder = builder.share(request.gpu_milli // 10)
    elif request.gpus:
        builder = builder.gpus(request.gpus)
    return builder.build(1)


@pytest.mark.parametrize("seed", range(4))
def test_nodes_are_rated_as_the_port_rates_them(solving: Any, seed: int) -> None:
    rng = random.Random(seed)
    nodes = [
        TraceNode(f"n{at}", rng.choice((8000, 32_000, 96_000)), 1 << 20, rng.choice((1, 2, 4, 8)), rng.choice(MODELS))
        for at in range(12)
    ]
    run, fgd = solving(), Fgd(nodes, WORKLOAD)
    for at, each in enumerate(nodes):
        run.node(each.name, cpu=each.cpu_milli, labels={names.LABEL_GPU_MODEL: each.model})
        run.devices(each.name, gpu_slots(each.gpus))
        taken = [rng.choice((0, 0, 20, 50, 90, 100)) for _ in range(each.gpus)]
        cpu = rng.randrange(0, each.cpu_milli, 500)
        grants = tuple(gpu_grant(minor, percent) for minor, percent in enumerate(taken) if percent)
        claim = Claim(name=("default", f"c{at}"), uid=f"c{at}", node=each.name, amounts={names.CPU: cpu}, grants=grants)
        run.cluster.capacity.apply(claim, 1)
        fgd.cpu[at] -= cpu
        fgd.free[at, : each.gpus] -= [10 * percent for percent in taken]
    rows = np.arange(len(nodes))
    fgd._frag = fgd._fragmentation(fgd.cpu, fgd.free, rows)
    registry = run.cluster.profiles.of(names.SCHEDULER_NAME)
    score = FragmentationScore(run.cluster.nodes, registry.device_share, typical())
    asked = [*dict.fromkeys(WORKLOAD), PodRequest(1000, 0, 2, 1000, ()), PodRequest(1000, 0, 1, 20, ())]
    judged = 0
    for request in asked:
        kind = _Kind(len(nodes))
        fgd._score(request._replace(models=()), kind, rows)
        feasible = np.flatnonzero(kind.score >= 0)
        query = score.prescore(spec_of(pod_of(request)))
        assert query is not None
        rated = score.raw(query, feasible)
        assert rated.tolist() == kind.score[feasible].tolist()
        if feasible.size:
            judged += 1
            costs = np.arange(feasible.size, 0.0, -1.0)  # by cost it would be the last of equals
            chosen = best([Rated(score, 1, query, rated)], feasible, costs)
            assert feasible[chosen] == int(np.argmax(kind.score))
    assert judged >= 4


def test_without_a_workload_all_nodes_are_alike(solving: Any) -> None:
    run = solving()
    run.node("n0", cpu=8000)
    registry = run.cluster.profiles.of(names.SCHEDULER_NAME)
    score = FragmentationScore(run.cluster.nodes, registry.device_share)
    assert score.prescore(spec_of(pod("p").gpus(1).build(1))) is None
