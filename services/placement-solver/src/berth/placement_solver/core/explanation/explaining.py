"""The whole explanation of one that was refused, in bounded pieces of work between which others may go on.

What is found is true of the cluster as it is while nothing changes between the pieces: the caller looks to that.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias

from berth.contracts.explanation import Explanation, Forbidder, NearestMiss
from berth.placement_solver.core.explanation.forbids import Element, Forbids, forbids_of
from berth.placement_solver.core.explanation.hitting import smallest_hitting
from berth.placement_solver.core.explanation.members import Found, Members
from berth.placement_solver.core.explanation.nearest import nearest_miss
from berth.placement_solver.core.explanation.proving import Means
from berth.placement_solver.core.explanation.repairs import repairs_of
from berth.placement_solver.core.plan import Unit
from berth.rules.unschedulable_message import NO_NODES

NO_NODE: Final = Found((Element("nodes", "", NO_NODES),), True)

Steps: TypeAlias = "Generator[None, None, Explanation | None]"


def explain(unit: Unit, means: Means) -> Steps:
    """Why the unit is placed nowhere, and what would help. None: something would take it, or nobody can say why not."""
    forbids: Forbids | None = None
    found: Found | None
    if unit.needed:
        found = yield from Members(unit, means.solver).smallest()
    else:
        (candidate,) = unit.candidates
        with means.solver.capacity.nominated.heeded_by([candidate.name], candidate.object.template.priority):
            forbids = forbids_of(candidate, means.solver)
        yield
        found = _smallest(forbids)
    if found is None and not means.nodes.alive[: len(means.nodes)].any():
        found = NO_NODE
    if found is None:
        return None
    nearest: NearestMiss | None = nearest_miss(forbids, means.nodes) if forbids is not None else None
    yield
    repairs = yield from repairs_of(unit, forbids, means)
    return Explanation(
        forbidden_by=[Forbidder(code=each.code, what=each.what, message=each.message) for each in found.elements],
        is_smallest=found.is_smallest,
        nearest=nearest,
        repairs=repairs,
    )


def explained(unit: Unit, means: Means) -> Explanation | None:
    """The same at once."""
    steps = explain(unit, means)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Explanation | None = end.value
            return found


def _smallest(forbids: Forbids) -> Found | None:
    if not forbids.rows.size:
        return None
    hit = smallest_hitting(forbids.sets)
    if hit is None:
        return None
    elements = tuple(each for index, each in enumerate(forbids.elements) if hit.bits >> index & 1)
    return Found(elements, hit.is_smallest and forbids.is_exact)
