"""The reference cases of scores, through the adaptors that the solver ranks with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berth.contracts.state import PodTemplate
from berth.placement_solver.core.scores.balanced_allocation import BalancedAllocationScore
from berth.placement_solver.core.scores.image_locality import ImageLocalityScore
from berth.placement_solver.core.scores.node_affinity import NodeAffinityScore
from berth.placement_solver.core.scores.node_resources_fit import NodeResourcesFitScore
from berth.placement_solver.core.scores.taint_toleration import TaintTolerationScore
from berth.placement_solver.core.seams import Score
from berth.rules.scheduler_config import BalancedArgs, FitArgs, NodeAffinityArgs
from berth.rules.scheduler_config.args import read_args
from berth.testing.vectors import cases

World = Callable[[dict[str, Any]], tuple[Any, PodTemplate]]


def check(case: dict[str, Any], scoring: Any, template: PodTemplate, score: Score[Any]) -> None:
    found, expect = scoring.scores(score, template), case["expect"]
    if expect.get("skipped"):
        assert found is None
        return
    assert "feasibleNodes" not in case["given"]
    assert found is not None
    by_name = dict(zip(scoring.nodes.names, found, strict=True))
    assert {name: raw for name, (raw, _) in by_name.items()} == expect["raw"]
    assert {name: score for name, (_, score) in by_name.items()} == expect["scores"]


def args_of(case: dict[str, Any], plugin: str) -> Any:
    args = read_args(plugin, case["given"].get("args", {}), "args")
    assert not isinstance(args, list), args
    return args


@pytest.mark.parametrize("case", cases("kube-scheduler/taint_toleration_score"))
def test_taint_toleration(case: dict[str, Any], world: World) -> None:
    scoring, template = world(case)
    check(case, scoring, template, TaintTolerationScore(scoring.nodes))


@pytest.mark.parametrize("case", cases("kube-scheduler/node_affinity_score"))
def test_node_affinity(case: dict[str, Any], world: World) -> None:
    scoring, template = world(case)
    args: NodeAffinityArgs = args_of(case, "NodeAffinity")
    check(case, scoring, template, NodeAffinityScore(scoring.nodes, args.added_affinity))


@pytest.mark.parametrize("case", cases("kube-scheduler/fit_scoring"))
def test_node_resources_fit(case: dict[str, Any], world: World) -> None:
    scoring, template = world(case)
    args: FitArgs = args_of(case, "NodeResourcesFit")
    check(case, scoring, template, NodeResourcesFitScore(scoring.nodes, scoring.tally, args))


@pytest.mark.parametrize("case", cases("kube-scheduler/balanced_allocation"))
def test_balanced_allocation(case: dict[str, Any], world: World) -> None:
    scoring, template = world(case)
    args: BalancedArgs = args_of(case, "NodeResourcesBalancedAllocation")
    check(case, scoring, template, BalancedAllocationScore(scoring.nodes, scoring.tally, args))


@pytest.mark.parametrize("case", cases("kube-scheduler/image_locality"))
def test_image_locality(case: dict[str, Any], world: World) -> None:
    scoring, template = world(case)
    check(case, scoring, template, ImageLocalityScore(scoring.images))
