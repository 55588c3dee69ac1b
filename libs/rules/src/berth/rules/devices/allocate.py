"""Which minors of one node serve a request, without regard to topology.

Greedy in the order of :mod:`.ordering`, which is exact here: every chosen device gives the same amounts, so any set
of fitting devices is as feasible as any other. The result depends on amounts and minors alone, never on the order in
which devices are listed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from berth.rules.devices.columns import GPU, Vector
from berth.rules.devices.memory import fill_memory, fits
from berth.rules.devices.ordering import Candidate, by_minor
from berth.rules.devices.scoring import Scoring, score
from berth.rules.devices.slots import Grant, NoCapacity, Slot
from berth.rules.devices.want import Want


def allocate(
    slots: Sequence[Slot],
    want: Want,
    *,
    scoring: Scoring | None = None,
    preferred: Collection[int] = (),
    required: Collection[int] | None = None,
) -> tuple[Grant, ...] | NoCapacity:
    """Choose ``want.instances`` devices; grants come by rising minor.

    Without ``scoring`` all scores are equal (the check before a node is chosen). ``preferred`` minors are tried
    first, ``required`` are the only ones allowed: both are how a reservation narrows the choice.
    """
    if not slots:
        return NoCapacity(f"Insufficient {want.family.name} devices", unresolvable=True)
    offers = offers_of(slots, want, required, scoring)
    if len(offers) < want.instances:
        return NoCapacity(f"Insufficient {want.family.name} devices")
    candidates = [Candidate(minor, offer.points) for minor, offer in offers.items()]
    chosen = sorted([candidate.minor for candidate in by_minor(candidates, preferred)[: want.instances]])
    return tuple([Grant(minor, offers[minor].filled) for minor in chosen])


class Offer(NamedTuple):
    """A device that can serve one instance: what is free, what it would give (memory filled), and its score."""

    free: Vector
    filled: Vector
    points: int


def offers_of(
    slots: Sequence[Slot], want: Want, required: Collection[int] | None = None, scoring: Scoring | None = None
) -> dict[int, Offer]:
    """The devices that can serve one instance, by minor; all score alike without ``scoring``."""
    offers: dict[int, Offer] = {}
    judged: dict[tuple[Vector, Vector], Offer | None] = {}  # most devices of a node are like another one
    for slot in slots:
        if required is not None and slot.minor not in required:
            continue
        alike = (slot.total, slot.used)
        if alike in judged:
            offer = judged[alike]
        else:
            offer = judged[alike] = _offer_of(slot, want, scoring)
        if offer is not None:
            offers[slot.minor] = offer
    return offers


def _offer_of(slot: Slot, want: Want, scoring: Scoring | None) -> Offer | None:
    free = slot.free
    if not any(free):
        return None
    filled = fill_memory(want.amounts, slot.total) if want.family is GPU else want.amounts
    if filled is None or not fits(want.amounts, slot.total, free, filled):
        return None
    return Offer(free, filled, score(slot.total, free, want.amounts, scoring) if scoring else 0)
