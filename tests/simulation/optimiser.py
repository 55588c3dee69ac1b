"""The optimiser of a simulated solver: it takes virtual time, and packs by chance what is left for the solver to judge.

The real one is a child process with a wall-clock limit, which no two runs repeat. What matters here is that a batch is
under way while the world goes on, and that a proposal may be good, bad, or missing.
"""

from __future__ import annotations

import random
from typing import Final, Protocol

import msgspec
import numpy as np

from berth.placement_solver.core.bounds import program as bounds
from berth.placement_solver.core.bounds.problem import Bound, BoundProblem
from berth.placement_solver.core.joint.leaving import LeavingProblem
from berth.placement_solver.core.joint.problem import JointProblem
from berth.placement_solver.core.prices.problem import Duals, PriceProblem
from berth.placement_solver.optimiser import Answer, Problem
from berth.placement_solver.settings import Settings
from berth.placement_solver.shell import main as solver
from berth.rules.job_preemption.first import first_plan
from berth.rules.job_preemption.problem import JobProblem, MemberClass
from berth.runtime import Context

NOTHING: Final = 0.2
NONSENSE: Final = 0.1
TRUE: Final = 0.5
TAKES_S: Final = (0.02, 0.3, 2.0)


class _Clock(Protocol):
    async def sleep(self, seconds: float) -> None: ...


class ChanceOptimiser:
    """A `JointSolver`."""

    def __init__(self, clock: _Clock, rng: random.Random) -> None:
        self.trouble = ""
        self._clock = clock
        self._rng = rng

    def warm_up(self) -> None:
        """Always warm."""

    async def solve(self, problem: Problem) -> Answer | None:
        """Something, after a while."""
        rng = self._rng
        await self._clock.sleep(rng.choice(TAKES_S) * rng.uniform(0.5, 1.5))
        drawn = rng.random()
        self.trouble = rng.choice(("late", "failed", "not ready")) if drawn < NOTHING else ""
        if drawn < NOTHING:
            return None
        if isinstance(problem, PriceProblem):
            return _prices(problem, rng, is_nonsense=drawn < NOTHING + NONSENSE)
        if isinstance(problem, BoundProblem):
            return Answer(None, bound=_bound(problem, rng, is_nonsense=drawn < NOTHING + NONSENSE))
        if isinstance(problem, LeavingProblem):
            return _leaving(problem, rng, is_nonsense=drawn < NOTHING + NONSENSE)
        return Answer(_nonsense(problem, rng) if drawn < NOTHING + NONSENSE else _packed(problem, rng))

    async def stop(self) -> None:
        """Nothing is held."""


def _leaving(problem: LeavingProblem, rng: random.Random, *, is_nonsense: bool) -> Answer | None:
    """Who leaves for a job: anybody, or what a plan says to which other ones are dear."""
    if is_nonsense:
        places = [[rng.randrange(2) for _ in problem.free] for _ in problem.members]
        return Answer(places, units=[unit for unit in range(len(problem.price)) if rng.random() < 0.5])
    nodes = range(len(problem.free))
    columns = len(problem.free[0]) if problem.free else 0
    plan = first_plan(
        JobProblem(
            free=np.array(problem.free, np.int64),
            pod_node=np.array(problem.pod_node, np.int64),
            pod_unit=np.array(problem.pod_unit, np.int64),
            pod_amounts=np.array(problem.pod_amounts, np.int64).reshape(-1, columns),
            price=np.array([rng.randrange(1, 9) for _ in problem.price], np.int64),
            node_cost=np.array([rng.randrange(9) for _ in nodes], np.int64),
            classes=tuple(
                MemberClass(np.array(request, np.int64), members, np.isin(nodes, rows))
                for request, members, rows in zip(problem.requests, problem.members, problem.rows, strict=True)
            ),
            order=tuple(kind for kind, members in enumerate(problem.members) for _ in range(members)),
        )
    )
    return Answer([each.tolist() for each in plan.places], units=list(plan.units)) if plan is not None else None


def _prices(problem: PriceProblem, rng: random.Random, *, is_nonsense: bool) -> Answer:
    """What shares of cards are worth: anything that grows with their size, or what no share can be worth."""
    shares = sorted(rng.random() for _ in range(100))
    if is_nonsense:
        shares = rng.choice(([], [float("nan")] * 100, [-1.0] * 100, [0.5] * 7, [9.0] * 100))
    kinds, classes = len(problem.cards), len(problem.pods)
    cards, cores = ([rng.random() for _ in range(kinds)] for _ in range(2))
    quotas, short = [rng.random() for _ in problem.quotas], [rng.random() for _ in range(classes)]
    return Answer(None, duals=Duals(shares, cards, cores, quotas, short))


def _bound(problem: BoundProblem, rng: random.Random, *, is_nonsense: bool) -> Bound:
    """How many of a batch any plan places: what the child would say, or as many as the plan or more; or what cannot be.

    The plan that was made is one of those that the child's program knows, whatever the world is like.
    """
    placed = list(problem.placed)
    if not is_nonsense and rng.random() < TRUE:
        found = bounds.solve(msgspec.structs.replace(problem, time_limit_s=60.0))
        if found is None or any(count < has for count, has in zip(found.counts, placed, strict=False)):
            raise AssertionError(f"a plan with {placed} is beyond the bound {found}")
        return found
    if is_nonsense:
        return Bound(
            [rng.randrange(-2, 200) for _ in range(rng.randrange(len(placed) + 3))], rng.choice(("linear", "?"))
        )
    there = [0] * len(placed)
    for count, level in zip(problem.counts, problem.level, strict=True):
        there[level] += count
    for level, (all_of, has) in enumerate(zip(there, placed, strict=True)):
        if has < all_of and rng.random() < 0.5:
            return Bound([*placed[:level], rng.randint(has + 1, all_of)], "linear")
    return Bound(placed, "linear")


def _nonsense(problem: JointProblem, rng: random.Random) -> list[list[int]]:
    return [[rng.randrange(count + 1) for _ in row] for count, row in zip(problem.counts, problem.most, strict=True)]


def _packed(problem: JointProblem, rng: random.Random) -> list[list[int]]:
    """Gangs and single items in any order, those of higher priority first, onto nodes in any order; a gang whole or not
    at all."""
    counts = [[0] * len(row) for row in problem.most]
    left = _Left(problem)
    units: dict[tuple[bool, int], list[int]] = {}
    for item, gang in enumerate(problem.gang):
        units.setdefault((gang >= 0, problem.group[gang] if gang >= 0 else item), []).append(item)
    order = sorted(units, key=lambda unit: (min(problem.level[item] for item in units[unit]), rng.random()))
    for unit in order:
        before = left.copy()
        wanted: dict[int, int] = {}
        for item in units[unit]:
            row = counts[item]
            for node in rng.sample(range(len(row)), len(row)):
                while (
                    sum(row) < problem.counts[item] and row[node] < problem.most[item][node] and left.take(item, node)
                ):
                    row[node] += 1
            wanted[problem.gang[item]] = wanted.get(problem.gang[item], 0) + sum(row)
        if unit[0] and any(count < problem.minimum[gang] for gang, count in wanted.items()):
            left = before
            for item in units[unit]:
                counts[item] = [0] * len(counts[item])
    return counts


class _Left:
    """What the nodes and quotas still have."""

    def __init__(self, problem: JointProblem) -> None:
        self._problem = problem
        self._free = [list(row) for row in problem.free]
        self._percent = [list(row) for row in problem.percent]
        self._limits = list(problem.limits)

    def copy(self) -> _Left:
        """As it is now."""
        twin = _Left(self._problem)
        twin._free = [list(row) for row in self._free]
        twin._percent = [list(row) for row in self._percent]
        twin._limits = list(self._limits)
        return twin

    def take(self, item: int, node: int) -> bool:
        """Capacity for one pod of an item on a node, if it seems to be there."""
        problem = self._problem
        needs, share = problem.needs[item], problem.share[item]
        cards = [row for row in self._percent if row[node] >= share][: problem.cards[item]]
        charged = [charges[item] for charges in problem.charges]
        if (
            any(row[node] < need for row, need in zip(self._free, needs, strict=True))
            or len(cards) < problem.cards[item]
            or any(left < charge for left, charge in zip(self._limits, charged, strict=True))
        ):
            return False
        for row, need in zip(self._free, needs, strict=True):
            row[node] -= need
        for row in cards:
            row[node] -= share
        self._limits = [left - charge for left, charge in zip(self._limits, charged, strict=True)]
        return True


async def main(context: Context[Settings]) -> None:
    """The placement solver with this optimiser."""
    await solver(context, lambda: ChanceOptimiser(context.clock, context.random))
