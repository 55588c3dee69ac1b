"""Which zones a pod may not use, because pods within one zone and pods across several are not to meet there.

What holds a zone are CPUs that a pod owns and what its record says of zones; a pod that was placed without regard to
zones holds none of them in this sense, or every node would be closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from berth.rules.numa.zone_sets import ZoneSet

IDLE: Final = "idle"
"""No pod holds it."""
SINGLE: Final = "single"
"""Only pods hold it that hold no other zone."""
SHARED: Final = "shared"
"""A pod holds it that holds other zones as well."""
NOT_EXCLUSIVE: Final = "node(s) whose NUMA nodes other pods hold, required singleNUMANodeExclusive"


def zone_status(zones: Iterable[int], holdings: Iterable[Iterable[int]]) -> dict[int, str]:
    """How each zone is held. `holdings` are the zones that each pod holds."""
    status = dict.fromkeys(zones, IDLE)
    for each in holdings:
        held = set(each)
        for zone in held & status.keys():
            status[zone] = SHARED if len(held) > 1 or status[zone] == SHARED else SINGLE
    return status


def may_hold(zones: ZoneSet, status: Mapping[int, str]) -> bool:
    """Whether a pod that wants zones exclusive may hold these: one zone unless pods across several hold it, several
    unless a pod within one holds one of them."""
    barred = SHARED if len(zones) == 1 else SINGLE
    return all(status.get(zone, IDLE) != barred for zone in zones)
