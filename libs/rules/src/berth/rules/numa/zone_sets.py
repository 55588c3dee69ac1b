"""Sets of zones: which are looked at, and how they are written.

A node of n zones has 2**n - 1 of them. Up to `SETS_MAX` all are looked at, which is ten zones. Of a node with more, all
sets of the small sizes that fit (singles and pairs up to forty zones), of the other sizes the zones with most of each
resource, and the whole node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import comb
from typing import Final

ZoneSet = tuple[int, ...]
"""Ids, ascending."""

SETS_MAX: Final = 1023
"""How many sets of a node are looked at, beside the whole node."""

_MASK_BITS_MAX: Final = 64


def zone_sets(zones: ZoneSet, rankings: Iterable[Sequence[int]] = ()) -> Iterator[ZoneSet]:
    """The sets to look at, by size and then by ids, the whole node last.

    `rankings` are orders of all zones, for sizes of which not every set fits: their first ones are looked at then. With
    one by what each resource has left, a set of a size holds that resource if any set of the size does.
    """
    orders = [*rankings]
    budget = SETS_MAX
    kept = sum(min(comb(len(zones), size), len(orders)) for size in range(1, len(zones)))
    for size in range(1, len(zones)):
        number = comb(len(zones), size)
        kept -= min(number, len(orders))
        if number + kept <= budget:
            budget -= number
            yield from combinations(zones, size)
        else:
            prefixes = sorted({tuple(sorted(order[:size])) for order in orders})[:budget]
            budget -= len(prefixes)
            yield from prefixes
    if zones:
        yield zones


def mask_text(zones: ZoneSet | None) -> str:
    """A set as kube-scheduler's plugins print it: one binary digit for each id, the lowest on the right, two digits,
    two more each time the number exceeds a power of 4. Ids that would make it unreadable are listed instead."""
    if zones is None:
        return "<nil>"
    if any(zone >= _MASK_BITS_MAX for zone in zones):
        return "{" + ",".join(map(str, zones)) + "}"
    mask = sum(1 << zone for zone in zones)
    width = 2
    while mask > 1 << width:
        width += 2
    return f"{mask:0{width}b}"
