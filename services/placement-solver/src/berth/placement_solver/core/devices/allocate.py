"""Which minors of one node serve a request, without regard to topology.

Greedy in the order of :mod:`.ordering`, which is exact here: every chosen device gives the same amounts, so any set
of fitting devices is as feasible as any other. The result depends on amounts and minors alone, never on the order in
which devices are listed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from berth.placement_solver.core.devices.columns import GPU, Vector
from berth.placement_solver.core.devices.memory import fill_memory, fits
from berth.placement_solver.core.devices.ordering import Candidate, by_minor
from berth.placement_solver.core.devices.scoring import Scoring, score
from berth.placement_solver.core.devices.slots import Grant, NoRoom, Slot
from berth.placement_solver.core.devices.want import Want


def allocate(
    slots: Sequence[Slot],
    want: Want,
    *,
    scoring: Scoring | None = None,
    preferred: Collection[int] = (),
    required: Collection[int] | None = None,
) -> tuple[Grant, ...] | NoRoom:
    """Choose ``want.instances`` devices; grants come by rising minor.

    Without ``scoring`` all scores are equal (the check before a node is chosen). ``preferred`` minors are tried
    first, ``required`` are the only ones allowed: both are how a reservation narrows the choice.
    """
    if not slots:
        return NoRoom(f"Insufficient {want.family.name} devices", unresolvable=True)
    offers: dict[int, Vector] = {}
    candidates: list[Candidate] = []
    for slot in slots:
        if required is not None and slot.minor not in required:
            continue
        free = slot.free
        filled = offer(slot, free, want)
        if filled is None:
            continue
        offers[slot.minor] = filled
        points = score(slot.total, free, want.amounts, scoring) if scoring else 0
        candidates.append(Candidate(slot.minor, points))
    if len(offers) < want.instances:
        return NoRoom(f"Insufficient {want.family.name} devices")
    chosen = sorted(candidate.minor for candidate in by_minor(candidates, preferred)[: want.instances])
    return tuple([Grant(minor, offers[minor]) for minor in chosen])


def offer(slot: Slot, free: Vector, want: Want) -> Vector | None:
    """What this device would give, both memory figures filled; None if it can't."""
    if not any(free):
        return None
    filled = fill_memory(want.amounts, slot.total) if want.family is GPU else want.amounts
    return filled if filled is not None and fits(want.amounts, slot.total, free, filled) else None
