"""What has to become free of one node's devices so that they serve so many pods, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from berth.rules.devices.allocate import allocate, offers_of
from berth.rules.devices.memory import fill_memory
from berth.rules.devices.slots import NoCapacity, Slot, charge
from berth.rules.devices.want import Want


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
