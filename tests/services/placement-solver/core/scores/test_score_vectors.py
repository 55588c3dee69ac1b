"""The reference cases of scores, through the adaptors that the solver ranks with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berth.contracts.state import Pod, PodTemplate
from berth.placement_solver.core.scores.balanced_allocation import BalancedAllocationScore
from berth.placement_solver.core.scores.image_locality import ImageLocalityScore
from berth.placement_solver.core.scores.node_affinity import NodeAffinityScore
from berth.placement_solver.core.scores.node_resources_fit import NodeResourcesFitScore
from berth.placement_solver.core.scores.node_resources_fit_plus import NodeResourcesFitPlusScore
from berth.placement_solver.core.scores.scarce_resource_avoidance import ScarceResourceAvoidanceScore
from berth.placement_solver.core.scores.taint_toleration import TaintTolerationScore
from berth.placement_solver.core.seams import Score
from berth.resources.amounts import parse_amounts
from berth.rules.scheduler_config import BalancedArgs, FitArgs, FitPlusArgs, NodeAffinityArgs, ScarceArgs
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


def one_node(case: dict[str, Any], world: World) -> tuple[Any, PodTemplate]:
    """A cluster of one node, on which one pod requests what the case says."""
    given = case["given"]
    spec = {
        part: [
            {"resources": {"requests": each.get("requests", {})}, **each, "name": f"c{at}"}
            for at, each in enumerate(of)
        ]
        for part, of in given["pod"].items()
    }
    pod = {"metadata": {"name": "p"}, "spec": spec}
    node = {"metadata": {"name": "n"}, "status": {"allocatable": given["allocatable"]}}
    scoring, template = world({"given": {"nodes": [node], "pod": pod}})
    requested, problems = parse_amounts(given.get("requested"), "requested")
    assert problems == []
    there = Pod(
        namespace="default", name="q", uid="q", version=1, node="n", template=PodTemplate(requests=requested, scored={})
    )
    scoring.charge(there)
    return scoring, template


def plus_args(plugin: str, resources: Any) -> Any:
    args = read_args(plugin, {"resources": resources}, "args")
    assert not isinstance(args, list), args
    return args


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/fit_plus_score"))
def test_node_resources_fit_plus(case: dict[str, Any], world: World) -> None:
    scoring, template = one_node(case, world)
    args: FitPlusArgs = plus_args("NodeResourcesFitPlus", case["given"]["resources"])
    found = scoring.scores(NodeResourcesFitPlusScore(scoring.nodes, scoring.tally, args), template)
    assert found == [(case["expect"]["score"],) * 2]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/scarce_avoidance_score"))
def test_scarce_resource_avoidance(case: dict[str, Any], world: World) -> None:
    scoring, template = one_node(case, world)
    args: ScarceArgs = plus_args("ScarceResourceAvoidance", case["given"]["resources"])
    found = scoring.scores(ScarceResourceAvoidanceScore(scoring.nodes, args), template)
    assert found == [(case["expect"]["score"],) * 2]
