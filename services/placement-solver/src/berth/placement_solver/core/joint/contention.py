"""When the optimiser is worth asking, and which of two plans is worth more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from berth.placement_solver.core.plan import Placement, Solution, Unit

HOPELESS: Final = frozenset({"unsupported", "invalid", "nodes", "reservation"})
"""Refusals that no other arrangement of the batch can lift."""


def is_contended(units: Sequence[Unit], solution: Solution) -> bool:
    """A gang was refused for want of capacity while others of its batch were placed, or could be placed otherwise."""
    if any(unit.candidates and unit.candidates[0].cls.rules.gathers(unit) for unit in units):
        return False  # the model knows nothing of where members lie to each other
    refused = {refusal.candidate.name: refusal.reasons for refusal in solution.refusals}
    for unit in units:
        if not unit.needed or not unit.candidates:
            continue
        reasons = [reason for name in unit.gang_of for reason in refused.get(name, ())]
        if reasons and not any(reason.code in HOPELESS for reason in reasons):
            return len(units) > 1 or len({candidate.cls.index for candidate in unit.candidates}) > 1
    return False


def worth(placements: Sequence[Placement]) -> tuple[tuple[int, int], ...]:
    """How much a plan places: pods by priority, highest priority first. Comparable with `<`.

    A plan that places more of the highest priority at which two plans differ is worth more.
    """
    counts: dict[int, int] = {}
    for placement in placements:
        priority = placement.candidate.object.template.priority
        counts[priority] = counts.get(priority, 0) + 1
    return tuple(sorted(counts.items(), reverse=True))
