"""Plans by what a victim brings for what it costs.

Once it is settled which gangs leave, nodes are independent of each other: for each it is worked out what so many
members cost there, and the members are spread over them at least cost. Which gangs leave is chosen by how much cheaper
their leaving makes the members, beside their own price.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from berth.rules.job_preemption.problem import Ints, JobPlan, JobProblem, MemberClass, cheaper, needed_plan
from berth.rules.job_preemption.tables import ON_NODE_MAX, Floats, Rows, spread

PICKS_MAX: Final = 16
ROWS_MAX: Final = 200


class Ground:
    """A problem as plans are looked for on it: pods by node, and the gangs by unit."""

    def __init__(self, problem: JobProblem) -> None:
        self.problem = problem
        single = problem.is_single[problem.pod_unit]
        self.singles: list[list[int]] = [[] for _ in range(len(problem.free))]
        self.pods_of: dict[int, list[int]] = {}
        for pod, (node, unit, alone) in enumerate(
            zip(problem.pod_node.tolist(), problem.pod_unit.tolist(), single.tolist(), strict=True)
        ):
            if alone:
                self.singles[node].append(pod)
            else:
                self.pods_of.setdefault(unit, []).append(pod)
        self.price = problem.price.astype(np.float64)
        self.pod_price = self.price[problem.pod_unit]

    def plan(self, gangs: Iterable[int]) -> JobPlan | None:
        """The plan for which these gangs leave; None: it does not do."""
        problem = self.problem
        gone = sorted(set(gangs))
        free = problem.free.copy()
        for unit in gone:
            pods = self.pods_of[unit]
            np.add.at(free, problem.pod_node[pods], problem.pod_amounts[pods])
        places = [np.zeros(len(free), np.int64) for _ in problem.classes]
        units: set[int] = set(gone)
        left: set[int] = set()
        for kind in self.largest_first():
            cls = problem.classes[kind]
            rows = np.flatnonzero(cls.nodes)
            table = self.rows(free, rows, left, cls)
            cost = table.cost(self.most(cls))
            total, counts, _ = spread(cost, cls.members, ROWS_MAX)
            if not np.isfinite(total):
                return None
            for at in np.flatnonzero(counts).tolist():
                leaving = table.leaving(at, int(counts[at]))
                free[rows[at]] += problem.pod_amounts[leaving].sum(axis=0) - counts[at] * cls.request
                left.update(leaving)
                units.update(problem.pod_unit[leaving].tolist())
            places[kind][rows] = counts
        return needed_plan(problem, places, units)

    def without_gangs(self, cls: MemberClass, most: int) -> tuple[Ints, Ints, Floats]:
        """For each gang, on each of its nodes: what members cost there once that gang has gone."""
        units, nodes = self._places_of_gangs()
        able = cls.nodes[nodes]
        units, nodes = units[able], nodes[able]
        pods = [self.singles[node] for node in nodes.tolist()]
        left = self.problem.free[nodes] + self._freed(units, nodes)
        rows = Rows(left, pods, self.problem.pod_amounts, self.pod_price, cls.request)
        return units, nodes, rows.cost(most)

    def rows(self, free: Ints, rows: Ints, left: set[int], cls: MemberClass) -> Rows:
        """Nodes with so much free, without the pods that have `left`, as members of a class see them."""
        pods = [self.singles[row] for row in rows.tolist()]
        if left:
            pods = [[pod for pod in each if pod not in left] for each in pods]
        return Rows(free[rows], pods, self.problem.pod_amounts, self.pod_price, cls.request)

    def largest_first(self) -> list[int]:
        """The classes in the order in which they are placed."""
        whole = np.maximum(self.problem.free.max(axis=0, initial=1), 1)
        size = [float((cls.request / whole).max(initial=0.0)) for cls in self.problem.classes]
        return sorted(range(len(size)), key=lambda kind: (-size[kind], kind))

    def most(self, cls: MemberClass) -> int:
        """How many members of a class one node could take, at most."""
        problem = self.problem
        wanted = cls.request > 0
        if not wanted.any():
            return min(cls.members, ON_NODE_MAX)
        emptied = problem.free.copy()
        np.add.at(emptied, problem.pod_node, problem.pod_amounts)
        able = (emptied[:, wanted] // cls.request[wanted]).min(axis=1)
        return int(min(cls.members, ON_NODE_MAX, max(able.max(initial=0), 1)))

    def _places_of_gangs(self) -> tuple[Ints, Ints]:
        pairs = sorted({(unit, int(self.problem.pod_node[pod])) for unit, pods in self.pods_of.items() for pod in pods})
        made = np.array(pairs, np.int64).reshape(-1, 2)
        return made[:, 0], made[:, 1]

    def _freed(self, units: Ints, nodes: Ints) -> Ints:
        freed = np.zeros((units.size, self.problem.free.shape[1]), np.int64)
        at = {pair: row for row, pair in enumerate(zip(units.tolist(), nodes.tolist(), strict=True))}
        for unit in np.unique(units).tolist():
            for pod in self.pods_of[unit]:
                row = at.get((unit, int(self.problem.pod_node[pod])))
                if row is not None:
                    freed[row] += self.problem.pod_amounts[pod]
        return freed


def by_gain(problem: JobProblem) -> JobPlan | None:
    """A plan at once."""
    ground = Ground(problem)
    gangs = _worth_it(ground)
    alone = ground.plan(())
    if not gangs:
        return alone
    return cheaper(alone, ground.plan(gangs))


def _worth_it(ground: Ground) -> set[int]:
    """The gangs that leave, judged by the largest members: one by one the best for its price, as long as all together
    becomes cheaper. No two of them share a node."""
    problem = ground.problem
    cls = problem.classes[ground.largest_first()[0]]
    most = ground.most(cls)
    rows = np.flatnonzero(cls.nodes)
    cost = ground.rows(problem.free, rows, set(), cls).cost(most)
    units, nodes, after = ground.without_gangs(cls, most)
    if not units.size:
        return set()
    row_of = np.searchsorted(rows, nodes)
    total, _, price = spread(cost, cls.members, ROWS_MAX)
    chosen: set[int] = set()
    open_units = np.ones(problem.price.size, np.bool_)
    everything = float(ground.price.sum() + 1)
    for _ in range(PICKS_MAX):
        value = price if np.isfinite(price) else everything
        better = _worth(after, value) - _worth(cost, value)[row_of]
        brings = np.minimum(np.bincount(units, better, problem.price.size), value * cls.members)
        gain = np.where(open_units, brings - ground.price, -1.0)
        ratio = gain / np.maximum(ground.price, 1.0)
        unit = int(ratio.argmax())
        if gain[unit] <= 0:
            break
        open_units[unit] = False
        mine = units == unit
        tried = cost.copy()
        tried[row_of[mine]] = after[mine]
        spent = float(ground.price[sorted({*chosen, unit})].sum())
        found, _, found_price = spread(tried, cls.members, ROWS_MAX)
        if np.isfinite(total) and found + spent >= total:
            continue
        cost, price = tried, found_price
        total = found + spent
        chosen.add(unit)
        # Who shares a node with it brings something else from now on.
        open_units[np.unique(units[np.isin(nodes, nodes[mine])])] = False
    return chosen


def _worth(cost: Floats, price: float) -> Floats:
    """What a row is worth at this price of a member."""
    found: Floats = (price * np.arange(cost.shape[1]) - cost).max(axis=1, initial=0.0)
    return found
