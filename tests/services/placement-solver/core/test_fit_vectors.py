"""The reference cases of resource fit, through both judges of the product: the columns that plan, and the verifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.kube import PodSpec
from berth.contracts.state import Node
from berth.placement_solver.core.verify.grants import Place
from berth.placement_solver.core.verify.node import NodeCheck
from berth.resources.amounts import Amounts, parse_amounts
from berth.resources.pod_request import request_of
from berth.testing.builders import pod
from berth.testing.vectors import cases
from berth.transaction.claims import Claim

BASIC = (names.CPU, names.MEMORY, names.PODS)


class Case:
    """One pod, one node, what is on it: `holders` are amounts of pods there."""

    def __init__(self, request: Amounts, node: Amounts, holders: list[Amounts], reasons: list[str]) -> None:
        self.request, self.node, self.holders, self.reasons = request, node, holders, reasons


def read(amounts: Any) -> Amounts:
    return parse_amounts(amounts, "amounts")[0]


def plain(case: dict[str, Any]) -> Case:
    """The vectors write a container's requests without `resources`."""
    given = case["given"]
    containers = [{"resources": {"requests": each.get("requests")}} for each in given["pod"]["containers"]]
    spec = msgspec.convert({"containers": containers, "overhead": given["pod"].get("overhead")}, PodSpec)
    requested = read(given["requested"])
    # All that is requested is held by the first of the pods counted.
    holders: list[Amounts] = [{} for _ in range(given["podCount"])]
    if requested:
        assert holders, "somebody holds what is requested"
        holders[0] = requested
    return Case(request_of(spec)[0], read(given["allocatable"]), holders, case["expect"]["reasons"])


def filtered(case: dict[str, Any]) -> list[Case]:
    given = case["given"]
    request = request_of(msgspec.convert(given["pod"]["spec"], PodSpec))[0]
    return [
        Case(
            request,
            read(node["status"]["allocatable"]),
            [
                request_of(msgspec.convert(there["spec"], PodSpec))[0]
                for there in given["pods"]
                if there["spec"]["nodeName"] == node["metadata"]["name"]
            ],
            case["expect"]["nodes"][node["metadata"]["name"]].get("reasons", []),
        )
        for node in given["nodes"]
    ]


def judged(file: str, read_case: Callable[[dict[str, Any]], list[Case]]) -> list[Any]:
    """What a scheduler is told to ignore no configuration of Berth says; `tests/libs/rules` has that case."""
    return [
        pytest.param(each, id=f"{of.id}", marks=of.marks)
        for of in cases(file)
        if "args" not in of.values[0]["given"]
        for each in read_case(of.values[0])
    ]


CASES = judged("numa-cpu-scoring/node_fit", lambda case: [plain(case)]) + judged("kube-scheduler/fit_filter", filtered)


@pytest.mark.parametrize("case", CASES)
def test_the_columns(solving: type[Any], case: Case) -> None:
    """A solver with this node alone places the pod, or refuses it for exactly these reasons."""
    run = solving()
    run.node(
        "n",
        cpu=case.node.get(names.CPU, 0),
        memory=case.node.get(names.MEMORY, 0),
        pods=case.node.get(names.PODS, 0),
        extended={name: amount for name, amount in case.node.items() if name not in BASIC},
    )
    run.pods(pod(f"there-{index}").requests(held).on("n") for index, held in enumerate(case.holders))
    run.pod(pod("p").requests(case.request))
    solution = run.round()
    told = {reason.message for refusal in solution.refusals for reason in refusal.reasons}
    assert told == set(case.reasons)
    assert len(solution.placements) == (not case.reasons)


@pytest.mark.parametrize("case", CASES)
def test_the_verifier(case: Case) -> None:
    """A plan that puts the pod there all the same is rejected for exactly these reasons."""
    held = [claim(f"there-{index}", amounts) for index, amounts in enumerate(case.holders)]
    node = Node(name="n", uid="u", version=1, allocatable=case.node)
    problems = NodeCheck(Place(node), held, [claim("p", case.request)]).problems()
    assert problems == [f"{reason}, wanted by default/p" for reason in case.reasons]


def test_the_verifier_counts_a_plans_own_pods() -> None:
    node = Node(name="n", uid="u", version=1, allocatable={names.CPU: 3000, names.PODS: 9})
    plan = [claim(name, {names.CPU: 1000}) for name in "abcd"]
    assert NodeCheck(Place(node), [], plan[:3]).problems() == []
    assert NodeCheck(Place(node), [], plan).problems() == ["Insufficient cpu, wanted by default/d"]


def claim(name: str, amounts: Amounts) -> Claim:
    return Claim(name=("default", name), uid=name, node="n", amounts=amounts)


RESOURCES = (names.CPU, names.MEMORY, "example.com/x", names.NVIDIA_GPU)
requests = st.dictionaries(st.sampled_from(RESOURCES), st.integers(-1, 3))


@given(
    allocatable=st.dictionaries(st.sampled_from([*RESOURCES, names.PODS]), st.integers(0, 8)),
    there=st.lists(requests, max_size=2),
    coming=st.lists(requests, min_size=1, max_size=4),
)
def test_pods_that_fit_together_fit_one_after_the_other(
    allocatable: Amounts, there: list[Amounts], coming: list[Amounts]
) -> None:
    """Whether all are looked at together first makes no difference."""
    node = Node(name="n", uid="u", version=1, allocatable={names.PODS: 5, **allocatable})
    held = [claim(f"there-{index}", amounts) for index, amounts in enumerate(there)]
    check = NodeCheck(Place(node), held, [claim(f"p{index}", amounts) for index, amounts in enumerate(coming)])
    problems = check.problems()
    with patch.object(NodeCheck, "_fit_together", lambda *_: False):
        assert check.problems() == problems
