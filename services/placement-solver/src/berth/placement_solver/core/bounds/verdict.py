"""What an answer means for a plan, and whether it is to be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from berth.contracts.event import BatchBound
from berth.placement_solver.core.bounds.problem import Bound, Draft

OPTIMAL: Final = "optimal"
BOUNDED: Final = "bounded"
UNKNOWN: Final = "unknown"
METHODS: Final = frozenset({"linear", "integer"})


def counted(pods: int, placed: int) -> BatchBound:
    """All of a batch was placed that some plan may place."""
    return BatchBound(
        status=OPTIMAL, method="counted", pods=pods, placed=placed, objective=placed, bound=placed, gap=0.0
    )


def unknown(pods: int, placed: int, why: str, took_ms: float = 0.0) -> BatchBound:
    """Nobody knows how many could have been placed, and why not."""
    return BatchBound(status=UNKNOWN, pods=pods, placed=placed, problem=why, took_ms=took_ms)


def refusal_of(found: Bound, draft: Draft) -> str:
    """The name of what is wrong with an answer; empty: it may be true.

    Nothing can be placed less often than it was (`below`), or more often than it is there (`excessive`).
    """
    placed, counts = draft.problem.placed, found.counts
    if found.method not in METHODS or not 0 < len(counts) <= len(placed):
        return "malformed"
    if any(at < before for at, before in zip(counts, placed, strict=False)):
        return "below"
    if any(at > all_of for at, all_of in zip(counts, draft.pods, strict=False)):
        return "excessive"
    differs = [at > before for at, before in zip(counts, placed, strict=False)]
    ends = differs.index(True) + 1 if True in differs else len(placed)
    return "" if ends == len(counts) else "malformed"


def verdict(found: Bound, draft: Draft, took_ms: float) -> BatchBound:
    """What a bound that may be true says of the plan."""
    placed, last = draft.problem.placed, len(found.counts) - 1
    objective = sum(placed[: last + 1])
    bound = objective - placed[last] + found.counts[last]
    is_optimal = bound == objective
    return BatchBound(
        status=OPTIMAL if is_optimal else BOUNDED,
        method=found.method,
        pods=sum(draft.pods),
        placed=sum(placed),
        priority=0 if is_optimal else draft.priorities[last],
        objective=objective,
        bound=bound,
        gap=(bound - objective) / bound if bound else 0.0,
        took_ms=took_ms,
    )


def in_words(bound: BatchBound) -> str:
    """For people, in one line."""
    placed = f"{bound.placed} of {bound.pods} placed"
    if bound.status == UNKNOWN:
        return f"{placed}, how many could be is unknown ({bound.problem})"
    if bound.status == OPTIMAL:
        return f"{placed}, no plan places more"
    return f"{placed}, {bound.bound - bound.objective} more of priority {bound.priority} at most"


def tally_in_words(counts: Mapping[str, int], order: Sequence[str] = (OPTIMAL, BOUNDED, UNKNOWN)) -> str:
    """How many batches were of each status."""
    return ", ".join(f"{counts[each]} {each}" for each in order if counts.get(each))
