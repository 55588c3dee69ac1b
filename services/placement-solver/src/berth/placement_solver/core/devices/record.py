"""Between the allocator's vectors and the messages: inventory in, grants out."""

from __future__ import annotations

from collections.abc import Iterable

from berth.contracts.grants import device
from berth.contracts.inventory import NodeInventory
from berth.contracts.ledger import Grant as Granted
from berth.rules.devices.columns import FAMILIES, Family
from berth.rules.devices.slots import Grant, Slot, charge


def slots_of_inventory(inventory: NodeInventory, holders: Iterable[Granted] = ()) -> dict[str, tuple[Slot, ...]]:
    """The slots of a node by device type, with what ``holders`` (bound pods and decisions, each once) have taken.

    An unhealthy device has no total. A device that is held but no longer in the inventory stays as a slot without a
    total. Types that no family covers are left out.
    """
    slots: dict[str, list[Slot]] = {}
    for listed in inventory.devices:
        family = FAMILIES.get(listed.kind)
        if family is not None:
            total = family.vector(listed.amounts) if listed.healthy else family.zero
            place = Slot(listed.minor, total, family.zero, listed.numa_node, listed.pcie)
            slots.setdefault(listed.kind, []).append(place)
    held: dict[str, list[Grant]] = {}
    for grant in holders:
        family = FAMILIES.get(grant.kind)
        if family is not None:
            held.setdefault(grant.kind, []).append(Grant(grant.minor, family.vector(grant.amounts)))
    return {kind: charge(slots.get(kind, ()), held.get(kind, ())) for kind in sorted(slots.keys() | held.keys())}


def device_grants(family: Family, grants: Iterable[Grant]) -> list[Granted]:
    """Grants as a decision carries them."""
    return [device(family.name, grant.minor, family.resources(grant.amounts)) for grant in grants]
