"""What became of a node's devices between two inventories, in sentences for people."""

from __future__ import annotations

from collections.abc import Iterable

from berth.contracts.inventory import DeviceSlot, NodeInventory

LISTED_MAX = 16


def changes(old: NodeInventory | None, new: NodeInventory | None) -> list[str]:
    """One sentence for each kind of change and device type; empty when only details changed."""
    before, after = _by_place(old), _by_place(new)
    both = before.keys() & after.keys()
    return [
        *_sentences("appeared", after.keys() - before.keys()),
        *_sentences("vanished", before.keys() - after.keys()),
        *_sentences("became unhealthy", (p for p in both if before[p].healthy and not after[p].healthy)),
        *_sentences("became healthy", (p for p in both if after[p].healthy and not before[p].healthy)),
        *_sentences("changed size", (p for p in both if before[p].amounts != after[p].amounts)),
        *_sentences("was replaced", (p for p in both if _other_device(before[p], after[p]))),
    ]


def _by_place(inventory: NodeInventory | None) -> dict[tuple[str, int], DeviceSlot]:
    return {(slot.kind, slot.minor): slot for slot in inventory.devices} if inventory else {}


def _other_device(before: DeviceSlot, after: DeviceSlot) -> bool:
    return bool(before.uuid and after.uuid and before.uuid != after.uuid)


def _sentences(what: str, places: Iterable[tuple[str, int]]) -> list[str]:
    by_kind: dict[str, list[int]] = {}
    for kind, minor in sorted(places):
        by_kind.setdefault(kind, []).append(minor)
    return [f"{kind} {_listed(minors)} {what}" for kind, minors in by_kind.items()]


def _listed(minors: list[int]) -> str:
    shown = ", ".join(map(str, minors[:LISTED_MAX]))
    return shown if len(minors) <= LISTED_MAX else f"{shown} and {len(minors) - LISTED_MAX} more"
