"""Which NUMA nodes can hold the devices of a pod: what devices say where CPUs, memory and devices lie together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final, NamedTuple

from berth.rules.devices.candidates import EVERYTHING, Narrowing
from berth.rules.devices.choose import NO_NARROWING, NO_SCORING, choose_devices
from berth.rules.devices.columns import GPU
from berth.rules.devices.hints import NO_HINT
from berth.rules.devices.joint import Chosen
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.request import DeviceRequest
from berth.rules.devices.scoring import Scoring
from berth.rules.devices.slots import NoCapacity
from berth.rules.devices.want import want_on

SAME_CARDS: Final = 500
"""Points of NUMA nodes on which the cards are those that would be chosen without regard to NUMA nodes."""
ZONES_MAX: Final = 8
"""Up to so many NUMA nodes all sets of them are tried; beyond it single ones, pairs and all."""
TOO_FEW: Final = NoCapacity("Insufficient NUMA Scoped Devices", unresolvable=True)


class DeviceHint(NamedTuple):
    """A set of NUMA nodes, by rising number, that holds all devices of the pod. The smallest are preferred."""

    zones: tuple[int, ...]
    is_preferred: bool
    score: int


def device_hints(
    node: NodeDevices,
    request: DeviceRequest,
    *,
    scoring: Mapping[str, Scoring] = NO_SCORING,
    narrowing: Mapping[str, Narrowing] = NO_NARROWING,
    only_smallest: bool = False,
) -> tuple[DeviceHint, ...] | NoCapacity:
    """The hints, the same for every type that is asked for, by growing set; why there are none.

    `only_smallest`: those that are preferred, and no others.
    """
    zones = sorted(
        {slot.numa for kind in request.amounts for slot in node.slots.get(kind, ()) if slot.numa >= 0 and slot.pcie}
    )
    everywhere = choose_on(node, request, zones, scoring=scoring, narrowing=narrowing)
    if isinstance(everywhere, NoCapacity):
        return everywhere
    cards = _cards(everywhere)
    found: list[tuple[tuple[int, ...], int]] = []
    for some in _sets(zones):
        if only_smallest and found and len(some) > len(found[0][0]):
            break
        chosen: Chosen | NoCapacity = everywhere
        if len(some) < len(zones):
            chosen = choose_on(node, request, some, scoring=scoring, narrowing=narrowing)
        if not isinstance(chosen, NoCapacity):
            found.append((some, SAME_CARDS if _cards(chosen) == cards else 0))
    smallest = min([len(some) for some, _ in found], default=0)
    return tuple(DeviceHint(some, len(some) == smallest, points) for some, points in found)


def choose_on(
    node: NodeDevices,
    request: DeviceRequest,
    zones: Iterable[int],
    *,
    scoring: Mapping[str, Scoring] = NO_SCORING,
    narrowing: Mapping[str, Narrowing] = NO_NARROWING,
) -> Chosen | NoCapacity:
    """The choice on these NUMA nodes alone."""
    allowed = frozenset(zones)
    for kind, amounts in request.amounts.items():
        slots = node.slots.get(kind, ())
        want = want_on(kind, amounts, slots, request.hints.get(kind, NO_HINT))
        if isinstance(want, NoCapacity):
            return want
        there = sum(slot.numa in allowed or (slot.numa < 0 and bool(slot.pcie)) for slot in slots)
        if want is not None and there < want.instances:
            return TOO_FEW
    narrowed = {kind: narrowing.get(kind, EVERYTHING)._replace(zones=allowed) for kind in request.amounts}
    return choose_devices(node, request, scoring=scoring, narrowing=narrowed)


def _sets(zones: list[int]) -> Iterator[tuple[int, ...]]:
    sizes = range(1, len(zones) + 1)
    for size in sizes if len(zones) <= ZONES_MAX else (1, 2, len(zones)):
        yield from combinations(zones, size)


def _cards(chosen: Chosen) -> tuple[int, ...]:
    return tuple(grant.minor for grant in chosen.get(GPU.name, ()))
