"""From counts back to claims: each pod placed on the node that the model chose, checked against the exact room.

What does not hold exactly (shares that fit a sum but no card) is left out; a gang that falls below its minimum by that
is taken back whole. So the result is always feasible, whatever the model said. Whoever fits beside it is placed one by
one: the room that the model left is nobody's, and nothing would wake who waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from berth.contracts.base import Reason
from berth.contracts.ledger import GangRef
from berth.placement_solver.core.joint.problem import Layout
from berth.placement_solver.core.plan import Placement, Refusal, Solution, Unit
from berth.placement_solver.core.solve import Solver, Trial
from berth.transaction.claims import Name

CROWDED_OUT: Final = Reason(code="contention", message="the room goes to a gang or to pods that need it more")


def joint_solution(
    counts: Sequence[Sequence[int]],
    layout: Layout,
    units: Sequence[Unit],
    plain: Solution,
    solver: Solver,
    trial: Trial,
    plan: str,
) -> Solution:
    """A result as a whole plan for the units, its claims applied to the trial.

    `plain` is the plan without the model: who was refused there already keeps those reasons.
    """
    placements = expand(counts, layout, units, solver, trial, plan)
    placed = {placement.candidate.name for placement in placements}
    rest = [unit for unit in units if placed.isdisjoint(candidate.name for candidate in unit.candidates)]
    placements += solver.solve(rest, trial, plan).placements
    placed = {placement.candidate.name for placement in placements}
    reasons = {refusal.candidate.name: refusal for refusal in plain.refusals}
    left = [candidate for unit in units for candidate in unit.candidates if candidate.name not in placed]
    refusals = [reasons.get(candidate.name, Refusal(candidate, (CROWDED_OUT,))) for candidate in left]
    return Solution(tuple(placements), tuple(refusals))


def expand(
    counts: Sequence[Sequence[int]], layout: Layout, units: Sequence[Unit], solver: Solver, trial: Trial, plan: str
) -> list[Placement]:
    """The placements of a result, their claims applied to the trial."""
    wanted: dict[Name, int] = {}
    for candidates, row_counts in zip(layout.items, counts, strict=True):
        waiting = iter(candidates)
        for row, count in zip(layout.rows, row_counts, strict=True):
            for _ in range(count):
                candidate = next(waiting, None)
                if candidate is not None:
                    wanted[candidate.name] = row
    placements: list[Placement] = []
    for unit in units:
        placements += _unit(unit, wanted, solver, trial, plan)
    return placements


def _unit(unit: Unit, wanted: dict[Name, int], solver: Solver, trial: Trial, plan: str) -> list[Placement]:
    start = len(trial.claims)
    placed: list[Placement] = []
    reached = dict.fromkeys(unit.needed, 0)
    for candidate in unit.candidates:
        row = wanted.get(candidate.name)
        found = solver.place_on(candidate, row, trial, plan) if row is not None else None
        if found is not None:
            placed.append(found)
            gang = unit.gang_of.get(candidate.name, "")
            if gang in reached:
                reached[gang] += 1
    if any(reached[gang] < minimum for gang, minimum in unit.needed.items()):
        trial.undo(start)
        return []
    if unit.needed:
        gang_ref = GangRef(name=unit.id, size=len(placed), strict=unit.strict)
        return [placement._replace(gang=gang_ref) for placement in placed]
    return placed
