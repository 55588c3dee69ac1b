"""The smallest set that has something in common with each of many sets, as bits of integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

VISITS_MAX: Final = 20_000
"""So many partial sets are looked at; then the best that was found is the answer."""


class Hitting(NamedTuple):
    """`bits`: without any one of them some set is missed. `is_smallest`: no smaller set does; else nobody looked on."""

    bits: int
    is_smallest: bool


def smallest_hitting(sets: Iterable[int], visits_max: int = VISITS_MAX) -> Hitting | None:
    """The smallest set that hits all of these; of several the one with the lowest bits. None: one of them is empty."""
    wanted = _least(sets)
    if wanted and wanted[0] == 0:
        return None
    best = _reduced(_greedy(wanted), wanted)
    visits = 0

    def look(chosen: int, size: int, left: list[int]) -> None:
        nonlocal best, visits
        if not left:
            if (size, _order(chosen)) < (best.bit_count(), _order(best)):
                best = chosen
            return
        visits += 1
        if visits > visits_max or size + _apart(left) > best.bit_count():
            return
        for bit in _bits(min(left, key=int.bit_count)):
            look(chosen | bit, size + 1, [each for each in left if not each & bit])

    look(0, 0, wanted)
    return Hitting(_reduced(best, wanted), visits <= visits_max)


def _least(sets: Iterable[int]) -> list[int]:
    """Those of them that contain no other one."""
    found: list[int] = []
    for each in sorted(set(sets), key=lambda bits: (bits.bit_count(), bits)):
        if not any(smaller & each == smaller for smaller in found):
            found.append(each)
    return found


def _apart(sets: list[int]) -> int:
    """At least so many bits are needed: so many of the sets have nothing in common."""
    used = count = 0
    for each in sets:
        if not each & used:
            used |= each
            count += 1
    return count


def _greedy(wanted: list[int]) -> int:
    chosen, left = 0, wanted
    while left:
        union = 0
        for each in left:
            union |= each
        bit = max(_bits(union), key=lambda bit: (sum(1 for each in left if each & bit), -bit))
        chosen |= bit
        left = [each for each in left if not each & bit]
    return chosen


def _reduced(chosen: int, wanted: list[int]) -> int:
    """Without what is not needed, the highest first."""
    for bit in sorted(_bits(chosen), reverse=True):
        if all(each & chosen & ~bit for each in wanted):
            chosen &= ~bit
    return chosen


def _bits(bits: int) -> list[int]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low)
        bits ^= low
    return found


def _order(bits: int) -> tuple[int, ...]:
    return tuple(_bits(bits))
