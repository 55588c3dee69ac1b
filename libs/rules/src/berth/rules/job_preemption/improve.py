"""A cheaper plan, for as long as there is time: which gangs leave is changed one by one, and all else is worked out
anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.rules.job_preemption.by_gain import Ground
from berth.rules.job_preemption.problem import JobPlan, JobProblem, cheaper

STEPS_MAX: Final = 2_000
STRIDE: Final = 7919
TOP: Final = 24
"""So many of the most promising gangs are tried."""


def steps(count: int) -> Callable[[], bool]:
    """There is time for so many steps."""
    left = iter(range(count))
    return lambda: next(left, None) is not None


def improved(problem: JobProblem, plan: JobPlan, has_time: Callable[[], bool]) -> JobPlan:
    """A plan that costs no more. The same problem and number of steps give the same plan."""
    ground = Ground(problem, is_exact=True)
    best = plan
    gone = {unit for unit in plan.units if unit in ground.pods_of}
    known: dict[frozenset[int], float] = {}

    def tried(gangs: frozenset[int]) -> tuple[float, list[float]]:
        nonlocal best
        found, prices = ground.plan(gangs)
        if found is None:
            known[gangs] = float("inf")
            return float("inf"), prices
        best = cheaper(best, found) or best
        known[gangs] = found.cost
        return found.cost, prices

    now = frozenset(gone)
    cost, prices = tried(now)
    if not ground.pods_of:
        return best
    begun = 0
    for _ in range(STEPS_MAX):
        if not has_time():
            break
        gains = [each.unit for each in ground.gains(now, prices)[:TOP]]
        moves = [now - {unit} for unit in sorted(now)] + [now | {unit} for unit in gains]
        moves += [(now - {old}) | {new} for old in sorted(now) for new in gains[:6]]
        fresh = [move for move in moves if move not in known]
        better = None
        for move in fresh:
            if not has_time():
                break
            found, _ = tried(frozenset(move))
            if found < cost:
                better = frozenset(move)
                break
        if better is None:
            if not fresh:
                # Nothing beside it is better: begin anew, beside the best.
                begun += 1
                better = _beside({unit for unit in best.units if unit in ground.pods_of}, list(ground.pods_of), begun)
            else:
                continue
        now = better
        cost, prices = tried(now)
    return best


def _beside(best: set[int], gangs: list[int], number: int) -> frozenset[int]:
    """Another set of gangs near the best, a different one for each number."""
    start = set(best)
    for turn in range(1 + number % 3):
        start.add(gangs[(number * STRIDE + turn * turn) % len(gangs)])
    if number % 2 and best:
        start.discard(sorted(best)[number // 2 % len(best)])
    return frozenset(start)
