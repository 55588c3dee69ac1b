"""From counts back to claims: each pod placed on the node that the model chose, checked against the exact capacity.

What does not hold exactly (shares that fit a sum but no card) is left out; a gang that falls below its minimum by that
is taken back whole. So the result is always feasible, whatever the model said. A unit that fits beside it is placed one
by one, members that a gang begins without included: the capacity that the model left is nobody's, and nothing would
wake who waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from berth.contracts.base import Reason
from berth.contracts.ledger import GangRef
from berth.placement_solver.core.joint.problem import Layout
from berth.placement_solver.core.plan import Placement, Refusal, Solution, Unit
from berth.placement_solver.core.solve import Solver
from berth.placement_solver.core.trial import Trial
from berth.rules.devices.columns import CORE, RATIO
from berth.transaction.claims import Name

ORDERS: Final = (0, -1, 1)
"""As they come, those first that take most of a card, those that take least."""
CROWDED_OUT: Final = Reason(code="contention", message="the capacity goes to a gang or to pods that need it more")


def wanted_of(counts: Sequence[Sequence[int]], layout: Layout) -> dict[Name, str]:
    """Whom a result gives which node."""
    wanted: dict[Name, str] = {}
    for candidates, node_counts in zip(layout.items, counts, strict=True):
        waiting = iter(candidates)
        for node, count in zip(layout.nodes, node_counts, strict=True):
            for _ in range(count):
                candidate = next(waiting, None)
                if candidate is not None:
                    wanted[candidate.name] = node
    return wanted


def joint_solution(
    wanted: Mapping[Name, str],
    units: Sequence[Unit],
    plain: Solution,
    solver: Solver,
    trial: Trial,
    plan: str,
) -> Solution:
    """A result as a whole plan for the units, its claims applied to the trial. `wanted` says who has which node.

    Whom `plain`, the plan without the model, would have placed learns where the capacity goes, unless it is the quota
    that is used up.
    """
    begun = _expand(units, wanted, solver, trial, plan)
    placements: list[Placement] = []
    refusals: list[Refusal] = []
    for unit, placed in zip(units, begun, strict=True):
        beside = _members_beside(unit, placed, solver, trial, plan) if placed else solver.solve((unit,), trial, plan)
        placements += _named(unit, (*placed, *beside.placements))
        refusals += beside.refusals
    had_capacity = {placement.candidate.name for placement in plain.placements}
    return Solution(tuple(placements), tuple(_crowded_out(refusals, had_capacity)))


def _crowded_out(refusals: Iterable[Refusal], had_capacity: set[Name]) -> Iterable[Refusal]:
    for refusal in refusals:
        is_full = all(reason.code != "quota" for reason in refusal.reasons)
        yield (
            refusal._replace(reasons=(CROWDED_OUT,)) if is_full and refusal.candidate.name in had_capacity else refusal
        )


def _expand(
    units: Sequence[Unit], wanted: Mapping[Name, str], solver: Solver, trial: Trial, plan: str
) -> list[list[Placement]]:
    """What the result places of each unit. In which order shares find cards matters: several are tried."""
    before, best = len(trial.claims), (-1, 1)
    for sign in ORDERS:
        placed = _in_order(sign, units, wanted, solver, trial, plan)
        number = sum(map(len, placed))
        if number == len(wanted) or sign == ORDERS[-1]:
            break
        best = max(best, (number, sign))
        trial.undo(before)
    if number < best[0]:
        trial.undo(before)
        placed = _in_order(best[1], units, wanted, solver, trial, plan)
    return placed


def _in_order(
    sign: int, units: Sequence[Unit], wanted: Mapping[Name, str], solver: Solver, trial: Trial, plan: str
) -> list[list[Placement]]:
    placed: list[list[Placement]] = [[] for _ in units]
    for at in sorted(range(len(units)), key=lambda at: sign * _of_a_card(units[at])):
        placed[at] = _unit(units[at], wanted, solver, trial, plan)
    return placed


def _of_a_card(unit: Unit) -> int:
    """The most that one of its pods takes of a card, in percent."""
    wants = (candidate.cls.want for candidate in unit.candidates)
    return max((max(want.amounts[CORE], want.amounts[RATIO]) for want in wants if want is not None), default=0)


def _unit(unit: Unit, wanted: Mapping[Name, str], solver: Solver, trial: Trial, plan: str) -> list[Placement]:
    """What the result places of a unit."""
    start = len(trial.claims)
    placed: list[Placement] = []
    reached = dict.fromkeys(unit.needed, 0)
    for candidate in unit.candidates:
        row = solver.nodes.rows.get(wanted.get(candidate.name, ""))
        found = solver.place_on(candidate, row, trial, plan) if row is not None else None
        if found is not None:
            placed.append(found)
            gang = unit.gang_of.get(candidate.name, "")
            if gang in reached:
                reached[gang] += 1
    if any(reached[gang] < minimum for gang, minimum in unit.needed.items()):
        trial.undo(start)
        return []
    return placed


def _members_beside(unit: Unit, placed: Sequence[Placement], solver: Solver, trial: Trial, plan: str) -> Solution:
    """The members that a gang begins without, each by itself."""
    names = {placement.candidate.name for placement in placed}
    more: list[Placement] = []
    refusals: list[Refusal] = []
    for candidate in unit.candidates:
        if candidate.name in names:
            continue
        found = solver.place(candidate, trial, plan)
        if isinstance(found, Placement):
            more.append(found)
        else:
            refusals.append(Refusal(candidate, found, unit.gang_of.get(candidate.name, "")))
    return Solution(tuple(more), tuple(refusals))


def _named(unit: Unit, placements: Sequence[Placement]) -> list[Placement]:
    """Placements of a gang say so, and how many there are."""
    if not unit.needed:
        return list(placements)
    gang = GangRef(name=unit.id, size=len(placements), strict=unit.strict)
    return [placement._replace(gang=gang) for placement in placements]
