"""The linear program of a bound, and the integer one where the plan does not reach the linear bound.

How many pods a plan places is judged priority by priority: of those plans that place as many of each higher priority as
the plan at hand, how many of this one can any place at most? The first priority at which that is more than the plan has
ends the search. Of an integer program that is not solved in time the bound counts that HiGHS has reached.
"""

from __future__ import annotations

from berth.placement_solver.core.bounds.columns import groups_of
from berth.placement_solver.core.bounds.problem import Bound, BoundProblem
from berth.placement_solver.core.counting.program import Counting


def solve(problem: BoundProblem) -> Bound | None:
    """The bound; None where the linear program was not solved in time."""
    counting = Counting(problem, groups_of(problem), time_limit_s=problem.time_limit_s)
    counts: list[int] = []
    method = "linear"
    for level, placed in enumerate(problem.placed):
        method = "linear"
        best = counting.linear(level)
        if best is None:
            return None
        if best > placed:
            closer = counting.integer(level).bound
            if closer is not None and closer < best:
                best, method = closer, "integer"
        counts.append(best)
        if best > placed:
            break
        counting.keep(level, placed)
    return Bound(counts, method)
