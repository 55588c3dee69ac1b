"""The optimiser of a simulated solver: it takes virtual time, and packs by chance what is left for the solver to judge.

The real one is a child process with a wall-clock limit, which no two runs repeat. What matters here is that a batch is
under way while the world goes on, and that a proposal may be good, bad, or missing.
"""

from __future__ import annotations

import random
from typing import Final, Protocol

from berth.placement_solver.core.joint.problem import JointProblem
from berth.placement_solver.optimiser import Answer
from berth.placement_solver.settings import Settings
from berth.placement_solver.shell import main as solver
from berth.runtime import Context

NOTHING: Final = 0.2
NONSENSE: Final = 0.1
TAKES_S: Final = (0.02, 0.3, 2.0)


class _Clock(Protocol):
    async def sleep(self, seconds: float) -> None: ...


class ChanceOptimiser:
    """A `JointSolver`."""

    def __init__(self, clock: _Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng

    def warm_up(self) -> None:
        """Always warm."""

    async def solve(self, problem: JointProblem) -> Answer | None:
        """Something, after a while."""
        rng = self._rng
        await self._clock.sleep(rng.choice(TAKES_S) * rng.uniform(0.5, 1.5))
        drawn = rng.random()
        if drawn < NOTHING:
            return None
        return Answer(_nonsense(problem, rng) if drawn < NOTHING + NONSENSE else _packed(problem, rng))

    async def stop(self) -> None:
        """Nothing is held."""


def _nonsense(problem: JointProblem, rng: random.Random) -> list[list[int]]:
    return [[rng.randrange(count + 1) for _ in problem.whole] for count in problem.counts]


def _packed(problem: JointProblem, rng: random.Random) -> list[list[int]]:
    """Items in any order onto nodes in any order, as long as amounts and cards seem to suffice; gangs as it comes."""
    counts = [[0] * len(problem.whole) for _ in problem.counts]
    free = [list(row) for row in problem.free]
    whole, gpu = list(problem.whole), list(problem.gpu)
    for item in rng.sample(range(len(counts)), len(counts)):
        needs, cards, share = problem.needs[item], problem.cards[item], problem.share[item]
        left = problem.counts[item]
        for node in rng.sample(range(len(whole)), len(whole)):
            while (
                left
                and counts[item][node] < problem.most[item][node]
                and all(row[node] >= need for row, need in zip(free, needs, strict=True))
                and whole[node] >= cards
                and gpu[node] >= cards + share
            ):
                counts[item][node] += 1
                left -= 1
                for row, need in zip(free, needs, strict=True):
                    row[node] -= need
                whole[node] -= cards
                gpu[node] -= cards + share
    return counts


async def main(context: Context[Settings]) -> None:
    """The placement solver with this optimiser."""
    await solver(context, lambda: ChanceOptimiser(context.clock, context.random))
