"""The devices of the nodes, row by row: what each has and who sits on it, a column of rows for each family.

Who holds a virtual function is counted: two holders of one, which nobody can prevent where others bind, are two, and it
is free once both are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from berth.contracts.grants import OWN_ROOT
from berth.contracts.inventory import NodeInventory
from berth.contracts.ledger import Grant as Granted
from berth.placement_solver.core.devices.cards import Cards
from berth.placement_solver.core.devices.fleet import Fleet
from berth.placement_solver.core.devices.record import held_devices, slots_of_inventory
from berth.placement_solver.core.tallies.interned import Interned
from berth.rules.devices.columns import FAMILIES, GPU
from berth.rules.devices.slots import Function, Grant, Slot, charge, release

MAKES_MAX: Final = 1024
"""Of so many makes of nodes the idle devices are kept once for all nodes."""
UNWRITTEN_MAX: Final = 2048
"""So many rows at most are written at once, so that who reads after all nodes have come waits for no more."""
NONE: Final[tuple[Slot, ...]] = ()


class DeviceRows:
    """Slots by family and row. `versions` grows with each change of a row's devices."""

    def __init__(self, capacity: int) -> None:
        self.slots: dict[str, list[tuple[Slot, ...]]] = {kind: [] for kind in FAMILIES}
        self.versions: list[int] = []
        self._fleets = {kind: Fleet(family, capacity) for kind, family in FAMILIES.items()}
        self._unwritten: dict[str, set[int]] = {kind: set() for kind in FAMILIES}
        self._cards: dict[int, Cards] = {}
        self._functions: dict[int, Counter[tuple[str, str]]] = {}  # how many hold each, of rows where somebody does
        self.own_roots: dict[int, Counter[tuple[str, int]]] = {}
        """How many have the PCIe root of a device, by its type and minor, to themselves; of rows where some do."""
        self._idle: Interned[tuple[Slot, ...]] = Interned(MAKES_MAX)

    def append(self) -> None:
        """One row more."""
        for each in self.slots.values():
            each.append(NONE)
        self.versions.append(0)

    def widen(self, capacity: int) -> None:
        """The arrays have so many rows at least."""
        for fleet in self._fleets.values():
            fleet.write([capacity - 1], [NONE])

    def fleet(self, kind: str = GPU.name) -> Fleet:
        """The devices of a family as arrays. Rows are written when they are read, or many: many changes of one node
        cost one write."""
        fleet, unwritten = self._fleets[kind], self._unwritten[kind]
        if unwritten:
            rows, slots = sorted(unwritten), self.slots[kind]
            fleet.write(rows, [slots[row] for row in rows])
            unwritten.clear()
        return fleet

    def cards(self, row: int) -> Cards:
        """The GPUs of one row as plain numbers."""
        found = self._cards.get(row)
        if found is None:
            found = self._cards[row] = Cards(self.slots[GPU.name][row])
        return found

    def clear(self, row: int) -> None:
        """The row becomes that of another node."""
        for kind in self.slots:
            self._set(kind, row, NONE)
        self._functions.pop(row, None)
        self.own_roots.pop(row, None)

    def see(self, row: int, inventory: NodeInventory | None) -> None:
        """What devices the node has; who sits on them stays as it is."""
        fresh = slots_of_inventory(inventory) if inventory is not None else {}
        for kind, slots in self.slots.items():
            there, before = fresh.get(kind, NONE), slots[row]
            if not there and not before:
                continue
            held = [
                Grant(slot.minor, slot.used, tuple(map(Function, sorted(slot.busy))))
                for slot in before
                if any(slot.used) or slot.busy
            ]
            idle = self._interned(there)
            self._set(kind, row, charge(idle, held) if held else idle)

    def take(self, row: int, grants: Iterable[Granted], sign: int) -> bool:
        """Charge (1) or give back (-1) the devices among grants; whether there were any."""
        grants = tuple(grants)
        held = held_devices(grants)
        if own := own_roots(grants):
            counts = self.own_roots.setdefault(row, Counter())
            for each in own:
                counts[each] += sign
            if not any(count > 0 for count in counts.values()):
                del self.own_roots[row]
        for kind, mine in held.items():
            slots = self.slots[kind][row]
            if sign > 0:
                self._count(row, kind, mine, 1)
                slots = charge(slots, mine)
            else:
                slots = release(slots, self._count(row, kind, mine, -1))
            self._set(kind, row, slots)
        return bool(held)

    def under(
        self, row: int, kinds: Iterable[str], gone: Sequence[Granted], there: Sequence[Granted]
    ) -> dict[str, tuple[Slot, ...]]:
        """The slots of these families if some grants were given back and others taken."""
        slots = {kind: self.slots[kind][row] for kind in kinds}
        if not gone and not there:
            return slots
        left, more = held_devices(gone), held_devices(there)
        counts = self._functions.get(row)
        for kind in slots:
            if mine := left.get(kind):
                slots[kind] = release(slots[kind], _last_held(kind, mine, counts) if counts else mine)
            if mine := more.get(kind):
                slots[kind] = charge(slots[kind], mine)
        return slots

    def sealed(
        self, row: int, kinds: Iterable[str], gone: Sequence[Granted], there: Sequence[Granted]
    ) -> dict[str, frozenset[str]]:
        """By type the PCIe roots that are their holders' own if some grants were given back and others taken.

        With one of them a device whose place is unknown may lie there, and one that is held may be anywhere.
        """
        counts = Counter(self.own_roots.get(row, ()))
        for each in own_roots(there):
            counts[each] += 1
        for each in own_roots(gone):
            counts[each] -= 1
        sealed: dict[str, frozenset[str]] = {}
        for kind in kinds:
            minors = {minor for (mine, minor), count in counts.items() if mine == kind and count > 0}
            if minors:
                sealed[kind] = frozenset({"", *(slot.pcie for slot in self.slots[kind][row] if slot.minor in minors)})
        return sealed

    def _interned(self, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        return self._idle.of(slots, lambda: slots)

    def _count(self, row: int, kind: str, grants: list[Grant], sign: int) -> list[Grant]:
        """Count who holds virtual functions; the grants with those of them that nobody holds afterwards."""
        if not any(grant.functions for grant in grants):
            return grants
        counts = self._functions.setdefault(row, Counter())
        left: list[Grant] = []
        for grant in grants:
            free = []
            for each in grant.functions:
                counts[kind, each.bus] += sign
                if counts[kind, each.bus] <= 0:
                    del counts[kind, each.bus]
                    free.append(each)
            left.append(grant._replace(functions=tuple(free)))
        if not counts:
            del self._functions[row]
        return left

    def _set(self, kind: str, row: int, slots: tuple[Slot, ...]) -> None:
        self.slots[kind][row] = slots
        self.versions[row] += 1
        unwritten = self._unwritten[kind]
        unwritten.add(row)
        if kind == GPU.name:
            self._cards.pop(row, None)
        if len(unwritten) >= UNWRITTEN_MAX:
            self.fleet(kind)


def own_roots(grants: Iterable[Granted]) -> list[tuple[str, int]]:
    """The devices among grants whose holder has the PCIe root to himself, by type and minor."""
    return [(each.kind, each.minor) for each in grants if each.extension == OWN_ROOT and each.kind in FAMILIES]


def _last_held(kind: str, grants: Iterable[Grant], counts: Mapping[tuple[str, str], int]) -> list[Grant]:
    """The grants with those virtual functions alone that nobody else holds."""
    taken = Counter(each.bus for grant in grants for each in grant.functions)
    return [
        grant._replace(
            functions=tuple(each for each in grant.functions if counts.get((kind, each.bus), 0) <= taken[each.bus])
        )
        for grant in grants
    ]
