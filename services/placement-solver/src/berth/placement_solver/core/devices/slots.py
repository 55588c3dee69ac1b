"""One node's devices as the allocator sees them, and the arithmetic of taking and giving back.

A slot is immutable, so a snapshot of a node is a tuple of slots and a trial allocation costs nothing to undo.
``used`` is kept rather than ``free``: after a device shrank, more may be in use than there is, and giving back must
then free only what lies above the total. Counting each holder exactly once is the caller's duty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from berth.placement_solver.core.devices.columns import Vector


class Slot(NamedTuple):
    """One device. ``total`` is all zero when it is unhealthy or gone; ``used`` then still says who sits on it.

    ``numa`` -1 and ``pcie`` "" mean that the place is unknown.
    """

    minor: int
    total: Vector
    used: Vector
    numa: int = -1
    pcie: str = ""

    @property
    def free(self) -> Vector:
        """What may still be taken, never negative."""
        return tuple([t - u if t > u else 0 for t, u in zip(self.total, self.used)])  # noqa: B905 - hot, equal by make


class Grant(NamedTuple):
    """What is taken from one device, memory filled both as bytes and as percent."""

    minor: int
    amounts: Vector


class NoCapacity(NamedTuple):
    """Why a node can't serve the request. ``unresolvable``: evicting pods from this node would not help."""

    reason: str
    unresolvable: bool = False


def charge(slots: Sequence[Slot], grants: Iterable[Grant]) -> tuple[Slot, ...]:
    """The slots with the grants taken; a grant on an unknown minor becomes a slot without a total."""
    taken = _sums(grants)
    known = {slot.minor for slot in slots}
    charged = [
        _using(slot, tuple(map(_plus, slot.used, taken[slot.minor]))) if slot.minor in taken else slot for slot in slots
    ]
    unknown = [Slot(minor, (0,) * len(v), v) for minor, v in taken.items() if minor not in known]
    return tuple(sorted(charged + unknown, key=_minor))


def release(slots: Sequence[Slot], grants: Iterable[Grant]) -> tuple[Slot, ...]:
    """The slots with the grants given back; use never falls below zero."""
    given = _sums(grants)
    return tuple(
        _using(slot, tuple(map(_less, slot.used, given[slot.minor]))) if slot.minor in given else slot for slot in slots
    )


def _sums(grants: Iterable[Grant]) -> dict[int, Vector]:
    sums: dict[int, Vector] = {}
    for minor, amounts in grants:
        sums[minor] = tuple(map(_plus, sums[minor], amounts)) if minor in sums else amounts
    return sums


def _using(slot: Slot, used: Vector) -> Slot:
    return Slot(slot.minor, slot.total, used, slot.numa, slot.pcie)  # several times faster than `_replace`


def _plus(a: int, b: int) -> int:
    return a + b


def _less(a: int, b: int) -> int:
    return a - b if a > b else 0


def _minor(slot: Slot) -> int:
    return slot.minor
