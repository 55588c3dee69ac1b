"""Devices of several types close together, greedily: the first type by its own rules, the others where it lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from berth.rules.devices.candidates import Candidates
from berth.rules.devices.columns import GPU
from berth.rules.devices.joint_request import SAME_NUMA
from berth.rules.devices.ordering import by_place
from berth.rules.devices.slots import Grant, NoCapacity

Allocate: TypeAlias = Callable[[Candidates], tuple[Grant, ...] | NoCapacity]
"""How a type is allocated by itself."""
Chosen: TypeAlias = dict[str, tuple[Grant, ...]]

VIOLATION: Final = NoCapacity("node(s) Device Joint-Allocate rules violation")


def places_of(found: Candidates, scope: str) -> dict[int, str]:
    """Where each device is, as far as it is known: its PCIe root, or its NUMA node under that scope."""
    if scope == SAME_NUMA:
        return {slot.minor: str(slot.numa) for slot in found.slots if slot.numa >= 0 and slot.pcie}
    return {slot.minor: slot.pcie for slot in found.slots if slot.pcie}


def greedy(
    types: Sequence[str], parts: Mapping[str, Candidates], scope: str, allocate: Allocate
) -> Chosen | NoCapacity:
    """The devices of these types, the first leading. With `scope` all must lie at the same places."""
    primary, *others = types
    led = allocate(parts[primary])
    if isinstance(led, NoCapacity):
        return led
    where = places_of(parts[primary], scope)
    near = {where[grant.minor] for grant in led if grant.minor in where}
    known = all(grant.minor in where for grant in led)
    chosen: Chosen = {primary: led}
    for kind in others:
        found = allocate(parts[kind]) if kind == GPU.name else beside(parts[kind], near, scope)
        if isinstance(found, NoCapacity):
            return found
        chosen[kind] = found
    if scope:
        for kind in others:
            there = places_of(parts[kind], scope)
            if not known or {there.get(grant.minor, "") for grant in chosen[kind]} != near:
                return VIOLATION
    return chosen


def beside(found: Candidates, near: set[str], scope: str) -> tuple[Grant, ...] | NoCapacity:
    """Devices near those places: as many as asked for, and one at each place if there are."""
    want = found.want
    most = max(want.instances, len(near))
    order = by_place(found.ranked(), places_of(found, scope), near, found.preferred)
    taken = [candidate.minor for candidate in order if candidate.minor in found.offers][:most]
    if len(taken) < (most if scope else want.instances):
        return NoCapacity(f"Insufficient {want.family.name} devices")
    return found.grants(taken)
