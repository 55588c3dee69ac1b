"""One node's devices as the allocator sees them, and the arithmetic of taking and giving back.

A slot is immutable, so a snapshot of a node is a tuple of slots and a trial allocation costs nothing to undo.
``used`` is kept rather than ``free``: after a device shrank, more may be in use than there is, and giving back must
then free only what lies above the total. Counting each holder exactly once is the caller's duty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from berth.rules.devices.columns import Vector

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Labels as pairs by rising key, so that what has them can be compared and hashed."""


def labels_of(labels: Mapping[str, str]) -> Labels:
    """Labels in that form."""
    return tuple(sorted(labels.items()))


class Function(NamedTuple):
    """A virtual function of a device: an identity, not an amount. ``minor`` -1 is none; ``labels`` are its group's."""

    bus: str
    minor: int = -1
    labels: Labels = ()


NO_FUNCTIONS: Final[tuple[Function, ...]] = ()


class Slot(NamedTuple):
    """One device. ``total`` is all zero when it is unhealthy or gone; ``used`` then still says who sits on it.

    ``numa`` -1 and ``pcie`` "" mean that the place is unknown. ``functions`` are its virtual functions by rising bus
    address, ``busy`` the addresses of those that are held.
    """

    minor: int
    total: Vector
    used: Vector
    numa: int = -1
    pcie: str = ""
    labels: Labels = ()
    functions: tuple[Function, ...] = ()
    busy: frozenset[str] = frozenset()

    @property
    def free(self) -> Vector:
        """What may still be taken, never negative."""
        return tuple([t - u if t > u else 0 for t, u in zip(self.total, self.used)])  # noqa: B905 - hot, equal by make


class Grant(NamedTuple):
    """What is taken from one device, memory filled both as bytes and as percent.

    ``functions`` are the virtual functions among it, ``template`` the name of the NPU template that it was cut by.
    """

    minor: int
    amounts: Vector
    functions: tuple[Function, ...] = ()
    template: str = ""


class NoCapacity(NamedTuple):
    """Why a node can't serve the request. ``unresolvable``: evicting pods from this node would not help."""

    reason: str
    unresolvable: bool = False


def charge(slots: Sequence[Slot], grants: Iterable[Grant]) -> tuple[Slot, ...]:
    """The slots with the grants taken; a grant on an unknown minor becomes a slot without a total."""
    taken, buses = _sums(grants)
    known = {slot.minor for slot in slots}
    charged = [
        _using(slot, tuple(map(_plus, slot.used, taken[slot.minor]))) if slot.minor in taken else slot for slot in slots
    ]
    unknown = [Slot(minor, (0,) * len(v), v) for minor, v in taken.items() if minor not in known]
    everything = charged + unknown
    if buses:
        everything = [
            slot._replace(busy=slot.busy | buses[slot.minor]) if slot.minor in buses else slot for slot in everything
        ]
    return tuple(sorted(everything, key=_minor))


def release(slots: Sequence[Slot], grants: Iterable[Grant]) -> tuple[Slot, ...]:
    """The slots with the grants given back; use never falls below zero."""
    given, buses = _sums(grants)
    released = tuple(
        _using(slot, tuple(map(_less, slot.used, given[slot.minor]))) if slot.minor in given else slot for slot in slots
    )
    if not buses:
        return released
    return tuple(
        slot._replace(busy=slot.busy - buses[slot.minor]) if slot.minor in buses else slot for slot in released
    )


def _sums(grants: Iterable[Grant]) -> tuple[dict[int, Vector], dict[int, frozenset[str]]]:
    sums: dict[int, Vector] = {}
    buses: dict[int, frozenset[str]] = {}
    for grant in grants:
        minor, amounts = grant.minor, grant.amounts
        sums[minor] = tuple(map(_plus, sums[minor], amounts)) if minor in sums else amounts
        if grant.functions:
            buses[minor] = buses.get(minor, frozenset()) | {each.bus for each in grant.functions}
    return sums, buses


def _using(slot: Slot, used: Vector) -> Slot:
    # several times faster than `_replace`
    return Slot(slot.minor, slot.total, used, slot.numa, slot.pcie, slot.labels, slot.functions, slot.busy)


def _plus(a: int, b: int) -> int:
    return a + b


def _less(a: int, b: int) -> int:
    return a - b if a > b else 0


def _minor(slot: Slot) -> int:
    return slot.minor
