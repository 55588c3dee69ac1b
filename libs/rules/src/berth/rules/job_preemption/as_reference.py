"""Koordinator's procedure: members one by one to the cheapest emptied node, then who can stay is given back.

Unlike Koordinator's, a member that was placed counts on its node for those after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from berth.rules.job_preemption.problem import Ints, JobPlan, JobProblem, needed_plan


class Removable(NamedTuple):
    """A pod that might leave, as the cost of its node sees it: its priority, and the job that it says it belongs to."""

    priority: int
    job: str = ""


def ranks(priorities: Sequence[int]) -> dict[int, int]:
    """The rank of each distinct priority, from 0."""
    return {priority: rank for rank, priority in enumerate(sorted(set(priorities)))}


def node_costs(removable: Mapping[str, Sequence[Removable]]) -> dict[str, int]:
    """What it costs to empty each node: of each job on it, the rank of the first of its pods."""
    rank = ranks([pod.priority for pods in removable.values() for pod in pods])
    costs: dict[str, int] = {}
    for node, pods in removable.items():
        first: dict[str, int] = {}
        for pod in pods:
            first.setdefault(pod.job, rank[pod.priority])
        costs[node] = sum(first.values())
    return costs


class Emptied(NamedTuple):
    """The reference's answer: the node of each member, in the order of `order`, and the pods that leave (by index)."""

    nodes: tuple[int, ...]
    victims: tuple[int, ...]


def reference_plan(problem: JobProblem) -> Emptied | None:
    """Who leaves, pod by pod; None: it is not helpful that everybody does, or there is nobody."""
    if not problem.pod_node.size:
        return None
    room = problem.free.copy()
    np.add.at(room, problem.pod_node, problem.pod_amounts)
    by_cost = np.argsort(problem.node_cost, kind="stable")
    feasible = np.ones(len(room), np.bool_)
    nodes: list[int] = []
    for kind in problem.order:
        cls = problem.classes[kind]
        wanted = cls.request > 0
        feasible &= cls.nodes & np.all(room[:, wanted] >= cls.request[wanted], axis=1)
        at = int(np.argmax(feasible[by_cost]))
        node = int(by_cost[at])
        if not feasible[node]:
            return None
        room[node] -= cls.request
        nodes.append(node)
    taken = np.zeros_like(room)
    np.add.at(taken, nodes, np.array([problem.classes[kind].request for kind in problem.order], np.int64))
    victims: list[int] = []
    for pod in np.flatnonzero(np.isin(problem.pod_node, nodes)).tolist():
        node = int(problem.pod_node[pod])
        left = room[node] - problem.pod_amounts[pod]
        if np.all(left[taken[node] > 0] >= 0):
            room[node] = left
        else:
            victims.append(pod)
    return Emptied(tuple(nodes), tuple(victims))


def by_reference(problem: JobProblem) -> JobPlan | None:
    """The same as a plan of units."""
    found = reference_plan(problem)
    if found is None:
        return None
    places = [np.zeros(len(problem.free), np.int64) for _ in problem.classes]
    for kind, node in zip(problem.order, found.nodes, strict=True):
        places[kind][node] += 1
    units: Ints = np.unique(problem.pod_unit[list(found.victims)]) if found.victims else np.zeros(0, np.int64)
    return needed_plan(problem, places, units.tolist())
