"""The reference cases of taints, node affinity and host ports through a whole decision: which nodes, for which reasons,
with which codes, in which order.

The rules themselves are judged in `tests/libs/rules`, with the raw scores. Here each node is alone when it is asked
whether it takes the pod, and beside one other when it is asked which of the two is liked more.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec
import pytest

from berth.contracts import kube
from berth.placement_solver.core.explain import UNASKED
from berth.placement_solver.core.plan import Solution
from berth.rules import ports
from berth.rules.taints import PREFER_NO_SCHEDULE
from berth.testing.builders import PodBuilder, pod
from berth.testing.vectors import cases

CODES = {
    "TaintToleration": "UnschedulableAndUnresolvable",
    "NodeAffinity": "UnschedulableAndUnresolvable",
    "NodePorts": "Unschedulable",
}
"""How the reference calls Berth's codes."""
FILTERS = cases("kube-scheduler/taint_toleration_filter") + cases("kube-scheduler/node_affinity_filter")
SCORES = cases("kube-scheduler/taint_toleration_score") + cases("kube-scheduler/node_affinity_score")


def wanted(case: dict[str, Any]) -> PodBuilder:
    spec = msgspec.convert(case["given"]["pod"], kube.Pod).spec
    return (
        pod("incoming")
        .requests(cpu=100)
        .template(tolerations=spec.tolerations or [], node_selector=spec.node_selector or {}, affinity=spec.affinity)
    )


def configured(solving: type[Any], case: dict[str, Any]) -> Any:
    """A solver, with the plugin's arguments where a case has some."""
    run = solving()
    if args := case["given"].get("args"):
        run.configure(pluginConfig=[{"name": "NodeAffinity", "args": args}])
    return run


def show(run: Any, node: kube.Node) -> None:
    run.node(node.metadata.name, labels=node.metadata.labels or {}, taints=node.spec.taints or [])


def listening(of: kube.Pod) -> PodBuilder:
    taken = ports.host_ports(of.spec.containers, of.spec.init_containers or ())
    return pod(of.metadata.name).template(host_ports=taken)


def code_of(solution: Solution) -> str:
    """The one code for the one pod."""
    codes = {CODES[reason.code] for refusal in solution.refusals for reason in refusal.reasons}
    (code,) = codes or {"Success"}
    assert len(solution.placements) == (code == "Success")
    return code


def soft(node: kube.Node) -> kube.Node:
    taints = [taint for taint in node.spec.taints or [] if taint.effect == PREFER_NO_SCHEDULE]
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints))


@pytest.mark.parametrize("case", FILTERS)
def test_a_node_takes_the_pod_or_is_refused_for_the_reason(solving: type[Any], case: dict[str, Any]) -> None:
    for node in msgspec.convert(case["given"]["nodes"], list[kube.Node]):
        expect = case["expect"]["nodes"][node.metadata.name]
        run = configured(solving, case)
        show(run, node)
        run.pod(wanted(case))
        solution = run.round()  # asserts that the verifier agrees
        assert code_of(solution) == expect["code"]
        told = [reason.message for refusal in solution.refusals for reason in refusal.reasons]
        if expect["code"] == "Success":
            assert told == []
        elif node.metadata.name in case["expect"].get("onlyNodes", [node.metadata.name]):
            assert told == expect["reasons"]
        else:  # a whole decision asks no node that no term names
            assert told == [UNASKED.format("NodeAffinity")]


@pytest.mark.parametrize("case", cases("kube-scheduler/node_ports"))
def test_a_node_whose_port_is_taken_is_refused(solving: type[Any], case: dict[str, Any]) -> None:
    for node in msgspec.convert(case["given"]["nodes"], list[kube.Node]):
        expect = case["expect"]["nodes"][node.metadata.name]
        run = solving()
        show(run, node)
        for there in msgspec.convert(case["given"]["pods"], list[kube.Pod]):
            if there.spec.node_name == node.metadata.name:
                run.pod(listening(there).on(node.metadata.name))
        run.pod(listening(msgspec.convert(case["given"]["pod"], kube.Pod)))
        solution = run.round()
        assert code_of(solution) == expect["code"]
        told = [reason.message for refusal in solution.refusals for reason in refusal.reasons]
        assert told == expect.get("reasons", [])


@pytest.mark.parametrize("case", SCORES)
def test_of_two_nodes_the_one_with_the_better_score_is_taken(solving: type[Any], case: dict[str, Any]) -> None:
    """Scores are compared, never their distance: what a point costs is Berth's own policy.

    A node with a hard taint is scored by the reference and taken by nobody; it stands here without that taint, which
    counts for nothing (`test_score_vector` of the rules has it).
    """
    nodes = {each.metadata.name: each for each in msgspec.convert(case["given"]["nodes"], list[kube.Node])}
    scores = case["expect"].get("scores", {})
    for one, other in combinations(case["given"].get("feasibleNodes", nodes), 2):
        for pair in ((one, other), (other, one)):
            run = configured(solving, case)
            for name in pair:
                show(run, soft(nodes[name]))
            run.pod(wanted(case))
            taken = run.nodes_of(run.round())["incoming"]
            assert scores.get(taken, 0) == max(scores.get(one, 0), scores.get(other, 0))
