"""Between the allocator's vectors and the messages: inventory in, what holders have taken in, grants out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from berth.contracts.grants import VF, device, device_of, function
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.ledger import Grant as Granted
from berth.rules.devices.columns import FAMILIES, Family
from berth.rules.devices.hints import Hint
from berth.rules.devices.slots import NO_FUNCTIONS, Function, Grant, Slot, labels_of
from berth.rules.records.device_allocated import with_own_roots

NO_HINTS: Final[Mapping[str, Hint]] = {}


def slots_of_inventory(inventory: NodeInventory) -> dict[str, tuple[Slot, ...]]:
    """The slots of a node by device type, with nobody on them; a type of which it has none is left out.

    An unhealthy device has no total, and types that no family covers are left out.
    """
    slots: dict[str, list[Slot]] = {}
    for listed in inventory.devices:
        family = FAMILIES.get(listed.kind)
        if family is not None:
            slots.setdefault(listed.kind, []).append(_slot(listed, family))
    return {kind: tuple(sorted(each, key=_minor)) for kind, each in slots.items()}


def held_devices(grants: Iterable[Granted]) -> dict[str, list[Grant]]:
    """The devices among grants by type, each with its virtual functions, and such functions without their device."""
    held: dict[str, list[Grant]] = {}
    functions: dict[tuple[str, int], list[Function]] = {}
    for grant in grants:
        family = FAMILIES.get(grant.kind)
        if family is not None:
            held.setdefault(grant.kind, []).append(Grant(grant.minor, family.vector(grant.amounts)))
        elif grant.kind == VF:
            functions.setdefault(device_of(grant), []).append(Function(grant.id))
    for (kind, minor), mine in functions.items():
        if kind in FAMILIES:
            _attach(held.setdefault(kind, []), Grant(minor, FAMILIES[kind].zero, tuple(mine)))
    return held


def _attach(grants: list[Grant], functions: Grant) -> None:
    """Put virtual functions to the device that they are of, or after the others where it is not among them."""
    for at, grant in enumerate(grants):
        if grant.minor == functions.minor:
            grants[at] = grant._replace(functions=functions.functions)
            return
    grants.append(functions)


def all_grants(chosen: Mapping[str, Sequence[Grant]], hints: Mapping[str, Hint] = NO_HINTS) -> tuple[Granted, ...]:
    """Grants of all types as a decision carries them, in the order of a record. `hints`: as who asks for them says."""
    grants = tuple(grant for kind in sorted(chosen) for grant in _granted(FAMILIES[kind], chosen[kind]))
    return with_own_roots(grants, hints) if hints else grants


def _granted(family: Family, grants: Iterable[Grant]) -> Iterator[Granted]:
    for grant in grants:
        yield device(family.name, grant.minor, family.resources(grant.amounts), grant.template)
        for each in grant.functions:
            yield function(each.bus, family.name, grant.minor)


def _slot(listed: DeviceSlot, family: Family) -> Slot:
    total = family.vector(listed.amounts) if listed.healthy else family.zero
    functions = NO_FUNCTIONS
    if listed.functions:
        functions = tuple(
            sorted(
                (Function(each.bus, each.minor, labels_of(each.labels)) for each in listed.functions),
                key=lambda each: each.bus,
            )
        )
    return Slot(listed.minor, total, family.zero, listed.numa_node, listed.pcie, labels_of(listed.labels), functions)


def _minor(slot: Slot) -> int:
    return slot.minor
