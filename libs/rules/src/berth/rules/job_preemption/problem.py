"""A job, the nodes, and who might leave them, as arrays; a plan, what it costs, and which of its units nobody needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class MemberClass(NamedTuple):
    """Members that ask for the same: what each takes, how many there are, and which nodes may take one once everybody
    who might leave has left."""

    request: Ints
    members: int
    nodes: Mask


class JobProblem(NamedTuple):
    """Nodes in the order of their names, pods in the order in which they are given back (the more important first).

    `free` (nodes x resources) is what is free with everybody there, negative where a node is over-committed. Of each
    pod that might leave: its node, its unit, and what it takes (pods x resources). `price` is of each unit. `node_cost`
    is the reference's estimate of what it costs to empty each node. `order` names the class of each member, in the
    order in which the reference places them.
    """

    free: Ints
    pod_node: Ints
    pod_unit: Ints
    pod_amounts: Ints
    price: Ints
    node_cost: Ints
    classes: tuple[MemberClass, ...]
    order: tuple[int, ...]

    @property
    def is_single(self) -> Mask:
        """Of each unit, whether it is one pod."""
        single: Mask = np.bincount(self.pod_unit, minlength=self.price.size) == 1
        return single


class JobPlan(NamedTuple):
    """How many members of each class go to each node, which units leave for that, and what it costs."""

    places: tuple[Ints, ...]
    units: tuple[int, ...]
    cost: int


def needed_plan(problem: JobProblem, places: Sequence[Ints], units: Iterable[int]) -> JobPlan | None:
    """The plan with those of the units that are needed; None when even all of them are not enough.

    The dearest are put back first; of equals the one that frees least.
    """
    chosen = sorted(set(units))
    taken = np.zeros_like(problem.free)
    for cls, counts in zip(problem.classes, places, strict=True):
        taken += counts[:, None] * cls.request[None, :]
    is_gone = np.zeros(problem.price.size, np.bool_)
    is_gone[chosen] = True
    leaving = is_gone[problem.pod_unit]
    slack = problem.free - taken
    np.add.at(slack, problem.pod_node[leaving], problem.pod_amounts[leaving])
    if np.any((taken > 0) & (slack < 0)):
        return None
    mine: dict[int, list[int]] = {unit: [] for unit in chosen}
    for pod in np.flatnonzero(leaving).tolist():
        mine[int(problem.pod_unit[pod])].append(pod)
    kept: list[int] = []
    for unit in sorted(chosen, key=lambda each: (-int(problem.price[each]), len(mine[each]), each)):
        pods = mine[unit]
        nodes = problem.pod_node[pods]
        amounts = problem.pod_amounts[pods]
        np.subtract.at(slack, nodes, amounts)
        if np.any((taken[nodes] > 0) & (slack[nodes] < 0)):
            np.add.at(slack, nodes, amounts)
            kept.append(unit)
    units_left = tuple(sorted(kept))
    return JobPlan(tuple(places), units_left, int(problem.price[list(units_left)].sum()))


def cheaper(*plans: JobPlan | None) -> JobPlan | None:
    """The cheapest, of equals the one with fewer units, of those the first."""
    found = [plan for plan in plans if plan is not None]
    return min(found, key=lambda plan: (plan.cost, len(plan.units)), default=None)
