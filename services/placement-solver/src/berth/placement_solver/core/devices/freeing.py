"""What has to become free of one node's devices so that they serve so many pods, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from berth.rules.devices.allocate import allocate, offers_of
from berth.rules.devices.choose import choose_devices
from berth.rules.devices.columns import FAMILIES
from berth.rules.devices.memory import fill_memory
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.request import DeviceRequest
from berth.rules.devices.scoring import Scoring
from berth.rules.devices.slots import NoCapacity, Slot, charge
from berth.rules.devices.want import Want

CALLED: Final[Mapping[str, str]] = {"gpu": "GPU", "rdma": "RDMA device", "fpga": "FPGA"}
"""How texts call a device of each family."""


class Freed(NamedTuple):
    """How many devices, and in words which (part)."""

    devices: int
    words: list[str]


def devices_to_free(slots: Sequence[Slot], want: Want, count: int) -> Freed | None:
    """Devices to free, the least used first; None: not even all would do."""
    freed: dict[int, Slot] = {}
    waiting = sorted(_useful(slots, want, count), key=_used_part)
    while not _serve([freed.get(slot.minor, slot) for slot in slots], want, count):
        if not waiting:
            return None
        slot = waiting.pop(0)
        freed[slot.minor] = slot._replace(used=want.family.zero)
    mine = [slot for slot in slots if slot.minor in freed]
    parts = [_part(slot, want, count) for slot in mine]
    whole = [slot.minor for slot, part in zip(mine, parts, strict=True) if not part]
    shares = [f"{part} % of GPU {slot.minor}" for slot, part in zip(mine, parts, strict=True) if part]
    cards = [f"GPU{'s' if len(whole) > 1 else ''} {' '.join(map(str, whole))}"] if whole else []
    return Freed(len(mine), shares + cards)


def _useful(slots: Sequence[Slot], want: Want, count: int) -> list[Slot]:
    """Devices that would help if they were freed: they serve then, and do not now (or may serve several pods)."""
    emptied = offers_of([slot._replace(used=want.family.zero) for slot in slots], want)
    serving = offers_of(slots, want) if count == 1 else {}
    return [slot for slot in slots if slot.minor in emptied and slot.minor not in serving]


def _serve(slots: Sequence[Slot], want: Want, count: int) -> bool:
    for _ in range(count):
        grants = allocate(slots, want)
        if isinstance(grants, NoCapacity):
            return False
        slots = charge(slots, grants)
    return True


def _used_part(slot: Slot) -> tuple[float, int]:
    parts = (used / total for used, total in zip(slot.used, slot.total, strict=True) if total)
    return (max(parts, default=0.0), slot.minor)


def _part(slot: Slot, want: Want, count: int) -> int:
    """For one share the percentage of compute and memory that is missing; 0: the whole device has to be free."""
    filled = fill_memory(want.amounts, slot.total)
    if not want.shared or count > 1 or filled is None:
        return 0
    columns = zip(filled, slot.total, slot.used, strict=True)
    percent = max(-(-100 * (need + used - total) // total) for need, total, used in columns if need and total)
    return percent if 0 < percent < 100 else 0


def what_to_free(
    node: NodeDevices, request: DeviceRequest, count: int, scoring: Mapping[str, Scoring]
) -> list[str] | None:
    """In words the devices that have to become free for so many such pods; None: not even all would do.

    All that are held are given back, and then taken again one by one, the fullest first, as long as the pods find
    theirs: nothing of what is left on the list could stay.
    """
    if _serves(node, request, count, scoring):
        return []
    held = [(kind, slot) for kind, slots in node.slots.items() for slot in slots if any(slot.used) or slot.busy]
    free = {
        kind: [slot._replace(used=FAMILIES[kind].zero, busy=frozenset()) for slot in slots]
        for kind, slots in node.slots.items()
    }
    sealed = node.sealed
    node = node._replace(slots=free, sealed={})
    if not _serves(node, request, count, scoring):
        return None
    to_free: dict[str, list[int]] = {}
    functions: dict[str, list[int]] = {}
    for kind, slot in sorted(held, key=lambda each: (each[0], -_used_part(each[1])[0], each[1].minor)):
        for kept in (slot, slot._replace(busy=frozenset())):
            tried = _sealed(node._replace(slots={**node.slots, kind: _with(node.slots[kind], kept)}), sealed)
            if _serves(tried, request, count, scoring):
                node = tried
                if kept is not slot:
                    functions.setdefault(kind, []).append(slot.minor)
                break
            if not slot.busy:
                to_free.setdefault(kind, []).append(slot.minor)
                break
        else:
            to_free.setdefault(kind, []).append(slot.minor)
    words = [_listed(kind, minors) for kind, minors in sorted(to_free.items())]
    return words + [f"a virtual function of {_listed(kind, minors)}" for kind, minors in sorted(functions.items())]


def _serves(node: NodeDevices, request: DeviceRequest, count: int, scoring: Mapping[str, Scoring]) -> bool:
    for _ in range(count):
        found = choose_devices(node, request, scoring=scoring)
        if isinstance(found, NoCapacity):
            return False
        node = node._replace(slots={kind: charge(slots, found.get(kind, ())) for kind, slots in node.slots.items()})
    return True


def _sealed(node: NodeDevices, sealed: Mapping[str, frozenset[str]]) -> NodeDevices:
    """With those PCIe roots its holder's own on which something is held yet: nobody else holds anything there."""
    used = {kind: {slot.pcie for slot in slots if any(slot.used)} for kind, slots in node.slots.items()}
    own = {kind: roots & used[kind] for kind, roots in sealed.items()}
    return node._replace(sealed={kind: roots | {""} for kind, roots in own.items() if roots})


def _with(slots: Sequence[Slot], mine: Slot) -> list[Slot]:
    return [mine if slot.minor == mine.minor else slot for slot in slots]


def _listed(kind: str, minors: Sequence[int]) -> str:
    return f"{CALLED[kind]}{'s' if len(minors) > 1 else ''} {' '.join(map(str, sorted(minors)))}"
