"""GPUs of one pod close together: the tree of node, NUMA nodes and PCIe roots.

The smallest scope that holds the request wins; among equal ones the one on the path that is already broken into, so
that untouched NUMA nodes stay whole for larger requests (Koordinator's rule). Where it differs: the minors of a
reservation are preferred here, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from berth.rules.devices.slots import Slot

NODE: Final = 1
NUMA_NODE: Final = 2
PCIE: Final = 3
DEVICE: Final = 4
SCOPES: Final[Mapping[str, int]] = {"Node": NODE, "NUMANode": NUMA_NODE, "PCIe": PCIE, "Device": DEVICE}
"""The levels by the names that a pod's allocate hint uses."""


class Scope(NamedTuple):
    """A part of the node: its devices by rising minor, and the parts below it."""

    level: int
    slots: Sequence[Slot]
    below: Sequence[Scope]


class Fit(NamedTuple):
    """A scope that holds the request. Compared in this order, larger is better: how deep it lies, how many scopes on
    the way to it are in use already, how many preferred minors it gives, the score of a shared device.
    """

    depth: int
    in_use: int
    preferred: int
    score: int
    minors: tuple[int, ...]


class Ask(NamedTuple):
    """What is looked for: ``instances`` devices out of ``able`` (minor to score); a shared one goes by score."""

    instances: int
    able: Mapping[int, int]
    shared: bool
    preferred: Collection[int]
    level: int


def share(level: int, slots: Sequence[Slot]) -> bool:
    """Whether devices lie under one scope of this level; a place that is not known is under the node alone."""
    if level >= DEVICE:
        return len(slots) == 1
    if level >= PCIE:
        return len({(slot.numa, slot.pcie) for slot in slots}) == 1 and all(slot.pcie for slot in slots)
    if level >= NUMA_NODE:
        return len({slot.numa for slot in slots}) == 1 and all(slot.pcie for slot in slots)
    return True


def tree_of(slots: Sequence[Slot]) -> Scope | None:
    """The tree of a node, None if the place of a device is unknown.

    Devices that are gone have no place and are left out.
    """
    placed = sorted((slot for slot in slots if slot.pcie or any(slot.total)), key=lambda slot: slot.minor)
    if not placed or not all(slot.pcie for slot in placed):
        return None
    numa_nodes: dict[str, dict[str, list[Slot]]] = {}
    for slot in placed:
        numa_nodes.setdefault(str(slot.numa), {}).setdefault(slot.pcie, []).append(slot)
    below = [
        Scope(
            NUMA_NODE,
            sorted((slot for group in roots.values() for slot in group), key=lambda slot: slot.minor),
            [Scope(PCIE, group, ()) for _, group in sorted(roots.items())],
        )
        for _, roots in sorted(numa_nodes.items())
    ]
    return Scope(NODE, placed, below)


def search(scope: Scope, ask: Ask, depth: int = 0, in_use: int = 0) -> Fit | None:
    """The best scope for the request, this one or one below it; the first on ties."""
    if len(scope.slots) < ask.instances:
        return None
    depth += 1
    in_use += any(any(slot.used) for slot in scope.slots)
    best: Fit | None = None
    for part in scope.below:
        found = search(part, ask, depth, in_use)
        if found is not None and (best is None or found[:4] > best[:4]):
            best = found
    if best is not None:
        return best
    return _within(scope, ask, depth, in_use) if scope.level >= ask.level else None


def _within(scope: Scope, ask: Ask, depth: int, in_use: int) -> Fit | None:
    able = [slot.minor for slot in scope.slots if slot.minor in ask.able]
    if len(able) < ask.instances:
        return None
    if ask.shared:
        able.sort(key=lambda minor: (minor not in ask.preferred, -ask.able[minor], minor))
    else:
        able.sort(key=lambda minor: (minor not in ask.preferred, minor))
    chosen = able[: ask.instances]
    preferred = sum(minor in ask.preferred for minor in chosen)
    points = max(ask.able[minor] for minor in chosen) if ask.shared else 0
    return Fit(depth, in_use, preferred, points, tuple(sorted(chosen)))
