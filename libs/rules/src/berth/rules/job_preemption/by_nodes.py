"""Plans for members that take a node each, as those do that ask for whole nodes.

What a node costs is what its pods cost, of a gang its share: the gang's price over the nodes that it is made to leave.
Shares and nodes are worked out in turns until they agree; then each gang that stays is given away for nothing once, to
see whether a plan with it is cheaper. Each turn is a sum and a sort, so there is time for hundreds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from berth.rules.job_preemption.problem import Ints, JobPlan, JobProblem, Mask, MemberClass, needed_plan
from berth.rules.job_preemption.tables import Floats

TURNS: Final = 12
TURNS_AGAIN: Final = 5
GIVEN_AWAY_MAX: Final = 120
"""So many gangs are given away for nothing, the cheapest for each of its nodes first."""


class Choice(NamedTuple):
    """Nodes and units that leave them for good, what they cost, and the share of each unit on one node."""

    cost: float
    nodes: Ints
    leaves: Mask
    share: Floats


def by_nodes(problem: JobProblem) -> JobPlan | None:
    """A plan with one member a node, for members that are alike; None where they are not, where most nodes take several
    or where there are too few nodes."""
    if len(problem.classes) != 1:
        return None
    (cls,) = problem.classes
    if _take_several(problem, cls):
        return None
    able, leaves = _leaving(problem, cls)
    search = _Search(problem, np.flatnonzero(able), cls.members, leaves & able[problem.pod_node])
    if not cls.members or search.rows.size < cls.members:
        return None
    found = search.best()
    places = np.zeros(len(problem.free), np.int64)
    places[found.nodes] = 1
    return needed_plan(problem, (places,), np.flatnonzero(found.leaves).tolist())


class _Search:
    """Chooses `members` of the rows, where those of the pods leave that are marked."""

    def __init__(self, problem: JobProblem, rows: Ints, members: int, marked: Mask) -> None:
        self.rows = rows
        self._members = members
        self._nodes = len(problem.free)
        pairs = np.stack([problem.pod_unit[marked], problem.pod_node[marked]], axis=1)
        self._unit, self._node = np.unique(pairs, axis=0).T
        self._price = problem.price.astype(np.float64)
        self._spread = np.maximum(np.bincount(self._unit, minlength=self._price.size), 1)

    def best(self) -> Choice:
        """The cheapest choice that is found."""
        found = self._from(self._price / self._spread, TURNS)
        waiting = np.flatnonzero((self._spread > 1) & ~found.leaves)
        order = np.argsort(self._price[waiting] / self._spread[waiting], kind="stable")
        for unit in waiting[order][:GIVEN_AWAY_MAX].tolist():
            share = found.share.copy()
            share[unit] = 0.0
            other = self._from(share, TURNS_AGAIN)
            if other.cost < found.cost:
                found = other
        return found

    def _from(self, share: Floats, turns: int) -> Choice:
        """The cheapest of some turns, of which the first has these shares."""
        best = Choice(np.inf, self.rows[:0], np.zeros(share.size, np.bool_), share)
        for _ in range(turns):
            cost = np.bincount(self._node, share[self._unit], self._nodes)[self.rows]
            chosen = self.rows[np.argsort(cost, kind="stable")[: self._members]]
            is_chosen = np.zeros(self._nodes, np.bool_)
            is_chosen[chosen] = True
            count = np.bincount(self._unit[is_chosen[self._node]], minlength=share.size)
            leaves: Mask = count > 0
            total = float(self._price[leaves].sum())
            if total < best.cost:
                best = Choice(total, chosen, leaves, share)
            fresh = np.where(leaves, self._price / np.maximum(count, 1), share)
            if np.array_equal(fresh, share):
                break
            share = (share + fresh) / 2
        return best._replace(share=share)


def _take_several(problem: JobProblem, cls: MemberClass) -> bool:
    """Whether most of the nodes that take a member once everybody has left take two."""
    wanted = cls.request > 0
    emptied = problem.free[:, wanted].copy()
    np.add.at(emptied, problem.pod_node, problem.pod_amounts[:, wanted])
    able = cls.nodes & np.all(emptied >= cls.request[wanted], axis=1)
    return bool(2 * np.all(emptied[able] >= 2 * cls.request[wanted], axis=1).sum() > able.sum())


def _leaving(problem: JobProblem, cls: MemberClass) -> tuple[Mask, Mask]:
    """Which nodes can take a member, and which pods leave them for it: on each the dearest stay as long as they can."""
    spread = np.maximum(np.bincount(problem.pod_unit, minlength=problem.price.size), 1)
    dear = (problem.price / spread)[problem.pod_unit]
    wanted = cls.request > 0
    amounts = problem.pod_amounts[:, wanted]
    slack = problem.free[:, wanted] - cls.request[wanted]
    np.add.at(slack, problem.pod_node, amounts)
    able: Mask = cls.nodes & np.all(slack >= 0, axis=1)
    order = np.argsort(-dear, kind="stable")
    leaves = np.zeros(order.size, np.bool_)
    for pods in _one_a_node(order, problem.pod_node):
        nodes = problem.pod_node[pods]
        left = slack[nodes] - amounts[pods]
        stays = np.all(left >= 0, axis=1)
        slack[nodes[stays]] = left[stays]
        leaves[pods[~stays]] = True
    return able, leaves


def _one_a_node(order: Ints, node: Ints) -> list[Ints]:
    """Pods in their order, those that come first on their nodes, then the second ones, and so on."""
    if not order.size:
        return []
    by_node = np.argsort(node[order], kind="stable")
    sorted_nodes = node[order][by_node]
    starts = np.flatnonzero(np.r_[True, sorted_nodes[1:] != sorted_nodes[:-1]])
    place = np.empty(order.size, np.int64)
    place[by_node] = np.arange(order.size) - np.repeat(starts, np.diff(np.r_[starts, order.size]))
    return [order[place == turn] for turn in range(int(place.max()) + 1)]
