"""Who leaves for a whole job: the reference's procedure, and plans that are no dearer, without spare victims."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.state import Pod
from berth.rules import preemption
from berth.rules.job_preemption.as_reference import Emptied, Removable, by_reference, node_costs, ranks, reference_plan
from berth.rules.job_preemption.by_nodes import by_nodes
from berth.rules.job_preemption.first import first_plan
from berth.rules.job_preemption.problem import JobPlan, JobProblem, MemberClass
from berth.testing.builders import pod
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("gang/preemption_cost"))
def test_cost_vector(case: dict[str, Any]) -> None:
    victims = {
        node: [Removable(each["priority"], each.get("job", "")) for each in pods]
        for node, pods in case["given"]["victims"].items()
    }
    assert node_costs(victims) == case["expect"]["cost"]


def there(node: str, each: Mapping[str, Any]) -> Pod:
    made = pod(each["name"]).requests(cpu=each["cpu"]).template(priority=each["priority"])
    for label, key in (
        (names.LABEL_DISABLE_PREEMPTIBLE, "disablePreemptible"),
        (names.LABEL_QUOTA_PREEMPTIBLE, "preemptible"),
        (names.LABEL_QUESTIONED_OBJECT, "job"),
    ):
        if key in each:
            made.label(label, str(each[key]))
    if each.get("terminatingByPreemption"):
        made.set(deleting=True, disruption=preemption.BY_SCHEDULER)
    return made.on(node).build(1)


def job_of(each: Pod) -> str:
    return each.template.labels.get(names.LABEL_QUESTIONED_OBJECT, "")


def written(
    given: Mapping[str, Any], removable: Sequence[Pod], on_nodes: Sequence[str], members: Sequence[Any]
) -> JobProblem:
    nodes = {each["name"]: each for each in given["nodes"]}
    at = {name: index for index, name in enumerate(on_nodes)}
    ordered = sorted(removable, key=lambda each: (-each.template.priority, job_of(each), each.name))
    free = [nodes[name]["cpu"] - sum(each["cpu"] for each in nodes[name].get("pods", [])) for name in on_nodes]
    sizes = list(dict.fromkeys(each["cpu"] for each in members))
    able = np.array([not nodes[name].get("unresolvable") for name in on_nodes])
    costs = node_costs(
        {
            name: [Removable(each.template.priority, job_of(each)) for each in ordered if each.node == name]
            for name in at
        }
    )
    rank = ranks([each.template.priority for each in ordered])
    return JobProblem(
        free=np.array(free, np.int64).reshape(-1, 1),
        pod_node=np.array([at[each.node] for each in ordered], np.int64),
        pod_unit=np.arange(len(ordered)),
        pod_amounts=np.array([each.template.requests[names.CPU] for each in ordered], np.int64).reshape(-1, 1),
        price=np.array([1 + rank[each.template.priority] for each in ordered], np.int64),
        node_cost=np.array([costs[name] for name in on_nodes], np.int64),
        classes=tuple(
            MemberClass(np.array([size]), sum(each["cpu"] == size for each in members), able) for size in sizes
        ),
        order=tuple(sizes.index(each["cpu"]) for each in members),
    )


@pytest.mark.parametrize("case", cases("gang/job_preemption"))
def test_job_vector(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    members = sorted(given["pending"], key=lambda each: each["name"])
    on_nodes = sorted(each["name"] for each in given["nodes"])
    pods = {each["name"]: [there(each["name"], one) for one in each.get("pods", [])] for each in given["nodes"]}
    blocked = {each["name"] for each in given["nodes"] if each.get("unresolvable")}
    trigger = given.get("trigger", members[0]["name"])
    for each in members:
        waits = pod(each["name"]).template(priority=given["priority"]).set(nominated=each.get("nominatedNode", ""))
        waits.template(preemption_policy=given.get("preemptionPolicy") if each["name"] == trigger else None)
        why = preemption.why_not_eligible(
            waits.build(1),
            preemption.lower_than(given["priority"], pods.get(each.get("nominatedNode", ""), [])),
            is_nominated_unresolvable=each["name"] == trigger and each.get("nominatedNode") in blocked,
        )
        if why:
            expected = {"never": preemption.POLICY_FORBIDS, "terminatingVictim": preemption.STILL_LEAVING}
            assert why == expected[expect["result"]]
            return
    removable = [
        each
        for name in on_nodes
        if name not in blocked
        for each in preemption.lower_than(given["priority"], pods[name])
    ]
    problem = written(given, removable, on_nodes, members)
    ordered = sorted(removable, key=lambda each: (-each.template.priority, job_of(each), each.name))
    found = reference_plan(problem)
    if found is None:
        assert expect["result"] == "notHelpful"
        return
    assert expect["result"] == "success"
    assert {each["name"]: on_nodes[node] for each, node in zip(members, found.nodes, strict=True)} == expect[
        "podToNode"
    ]
    victims: dict[str, list[str]] = {}
    for index in found.victims:
        victims.setdefault(ordered[index].node, []).append(ordered[index].name)
    assert victims == expect.get("victims", {})
    assert isinstance(found, Emptied)


# --- plans -----------------------------------------------------------------------------------------------------------


@st.composite
def problems(draw: st.DrawFn) -> JobProblem:
    nodes = draw(st.integers(1, 4))
    units = draw(st.integers(0, 6))
    pods = [
        (draw(st.integers(0, nodes - 1)), unit, draw(st.integers(1, 4)))
        for unit in range(units)
        for _ in range(draw(st.integers(1, 3)))
    ]
    pods.sort()
    kinds = draw(st.integers(1, 2))
    classes = tuple(
        MemberClass(
            np.array([draw(st.integers(0, 4))]),
            draw(st.integers(1, 3)),
            np.array([draw(st.booleans()) or at == 0 for at in range(nodes)]),
        )
        for _ in range(kinds)
    )
    order = tuple(kind for kind, cls in enumerate(classes) for _ in range(cls.members))
    return JobProblem(
        free=np.array([[draw(st.integers(-1, 4))] for _ in range(nodes)], np.int64),
        pod_node=np.array([each[0] for each in pods], np.int64),
        pod_unit=np.array([each[1] for each in pods], np.int64),
        pod_amounts=np.array([[each[2]] for each in pods], np.int64).reshape(-1, 1),
        price=np.array([draw(st.integers(1, 5)) for _ in range(units)], np.int64),
        node_cost=np.zeros(nodes, np.int64),
        classes=classes,
        order=order,
    )


def slack(problem: JobProblem, plan: JobPlan, units: Sequence[int]) -> bool:
    """Whether all members have room when these have left."""
    left = problem.free.copy()
    for node, unit, amounts in zip(problem.pod_node, problem.pod_unit, problem.pod_amounts, strict=True):
        if unit in units:
            left[node] += amounts
    taken = sum(counts[:, None] * cls.request for cls, counts in zip(problem.classes, plan.places, strict=True))
    return bool(np.all((left >= taken) | (taken == 0)))


def optimum(problem: JobProblem) -> float:
    """The least cost of all, by looking at every set of units and every placement."""
    best = float("inf")
    for size in range(problem.price.size + 1):
        for units in itertools.combinations(range(problem.price.size), size):
            cost = float(problem.price[list(units)].sum())
            if cost < best and fits(problem, units):
                best = cost
    return best


def fits(problem: JobProblem, units: Sequence[int]) -> bool:
    left = problem.free.copy()
    for node, unit, amounts in zip(problem.pod_node, problem.pod_unit, problem.pod_amounts, strict=True):
        if unit in units:
            left[node] += amounts
    return place(problem, list(problem.order), left)


def place(problem: JobProblem, kinds: Sequence[int], left: Any) -> bool:
    if not kinds:
        return True
    cls = problem.classes[kinds[0]]
    for node in np.flatnonzero(cls.nodes).tolist():
        if np.all((left[node] >= cls.request) | (cls.request == 0)):
            left[node] -= cls.request
            if place(problem, kinds[1:], left):
                left[node] += cls.request
                return True
            left[node] += cls.request
    return False


@settings(max_examples=300, deadline=None)
@given(problems())
def test_plans_have_room_and_no_victim_to_spare(problem: JobProblem) -> None:
    best = optimum(problem)
    reference = by_reference(problem)
    plan = first_plan(problem)
    if plan is None:
        assert reference is None
        return
    assert best <= plan.cost, "nothing is cheaper than the optimum"
    assert reference is None or plan.cost <= reference.cost
    for each in filter(None, (plan, by_nodes(problem))):
        for cls, counts in zip(problem.classes, each.places, strict=True):
            assert counts.sum() == cls.members
            assert not counts[~cls.nodes].any()
        assert each.cost == problem.price[list(each.units)].sum()
        assert slack(problem, each, each.units)
        for unit in each.units:
            assert not slack(problem, each, [other for other in each.units if other != unit])


@settings(max_examples=100, deadline=None)
@given(problems())
def test_one_kind_of_member_has_a_plan_where_there_is_one(problem: JobProblem) -> None:
    single = problem._replace(classes=problem.classes[:1], order=(0,) * problem.classes[0].members)
    assert (first_plan(single) is None) == (optimum(single) == float("inf"))


def test_gangs_that_share_nodes_leave_for_members_that_take_a_node_each() -> None:
    """Node by node the single pods look cheaper than the gang on three nodes."""
    there = [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 3)]
    problem = JobProblem(
        free=np.zeros((6, 1), np.int64),
        pod_node=np.array([node for node, _ in there]),
        pod_unit=np.array([unit for _, unit in there]),
        pod_amounts=np.full((6, 1), 4),
        price=np.array([9, 4, 4, 4]),
        node_cost=np.zeros(6, np.int64),
        classes=(MemberClass(np.array([4]), 3, np.ones(6, np.bool_)),),
        order=(0, 0, 0),
    )
    found = by_nodes(problem)
    assert found is not None
    assert (found.cost, found.units) == (9, (0,))
