"""The nodes on which kubelet picks the cards (`berth.rules.devices.kubelet_counts`): which they are, and what is free.

There a pod that asks for a vendor's count gets a number: as many as the node's status shows and nobody has asked for,
and no more than the healthy cards of its Device, where it has one. No card goes by minor beside numbers of which
kubelet does not say which cards they are, and none by number beside cards that kubelet does not know to be held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from berth.contracts.inventory import NodeInventory
from berth.contracts.ledger import Grant
from berth.placement_solver.core.seams import Floats, Lacking, Mask, Rejection, RowArray, Rows, Target
from berth.rules.device_cordon import REASON
from berth.rules.devices.columns import GPU
from berth.rules.devices.kubelet_counts import DIVIDED
from berth.rules.gpu_request import WHOLE_CARDS
from berth.rules.records import registry
from berth.transaction.claims import Claim

if TYPE_CHECKING:
    from berth.placement_solver.core.nodes import Nodes

AT_ZERO: Final = "node(s) show a device that is asked for at 0, so that kubelet would refuse the pod"
BY_NUMBER: Final = "node(s) whose kubelet picks the GPUs, and where pods hold some by number"
BY_MINOR: Final = "node(s) whose kubelet picks the GPUs, and does not know of pods that hold some"
CORDONED: Final = "node(s) whose kubelet picks the GPUs, and may pick one that is cordoned"
NOT_BY_NUMBER: Final = "node(s) whose kubelet picks the GPUs, so that none can be chosen for the pod"
UNSAID: Final = "the devices of pods that do not say which"
COUNTED: Final = "the GPUs that kubelet has given"
HIDDEN: Final = "the GPUs of pods that kubelet does not know of"
_DEVICES: Final = registry.GRANTED_RESOURCES


class Number(NamedTuple):
    """So many cards by a vendor's count. `is_plain`: any of them will do."""

    resource: str
    amount: int
    is_plain: bool


class KubeletCounts:
    """By row. Arrays are made when the first node shows a count: most clusters have none."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._shown: dict[str, Mask] = {}
        self._at_zero: dict[str, set[int]] = {}
        self._by_minor: dict[int, int] = {}  # of rows where somebody holds cards that kubelet does not know of
        self._known: dict[str, RowArray] = {}  # of how many of a count kubelet says which cards they are

    def clear(self, row: int) -> None:
        """The row becomes that of another node."""
        self.see(row, {})
        self._by_minor.pop(row, None)
        for known in self._known.values():
            known[row : row + 1] = 0

    def see(self, row: int, offered: Mapping[str, int]) -> bool:
        """What the node offers; whether pods may go there for that which could not before."""
        is_news = False
        for name in WHOLE_CARDS:
            if name in offered and name not in self._shown:
                self._shown[name] = np.zeros(0, np.bool_)
        for name, shown in self._shown.items():
            if row >= shown.shape[0]:
                shown = self._shown[name] = np.pad(shown, (0, self._nodes.alive.shape[0] - shown.shape[0]))
            is_news |= bool(shown[row]) != (name in offered)
            shown[row] = name in offered
        for name in _DEVICES & (offered.keys() | self._at_zero.keys()):
            if offered.get(name, 1) <= 0:
                self._at_zero.setdefault(name, set()).add(row)
            elif row in self._at_zero.get(name, ()):
                self._at_zero[name].remove(row)
                if not self._at_zero[name]:
                    del self._at_zero[name]
                is_news = True
        return is_news

    def take(self, row: int, amounts: Mapping[str, int], grants: Iterable[Grant], sign: int) -> None:
        """Charge (1) or give back (-1) cards that somebody holds by minor."""
        if cards := _unknown_to_kubelet(amounts, grants):
            left = self._by_minor.get(row, 0) + sign * cards
            if left:
                self._by_minor[row] = left
            else:
                del self._by_minor[row]

    def know(self, row: int, amounts: Mapping[str, int], sign: int) -> None:
        """Somebody (1), or nobody any more (-1), holds such numbers of cards of which kubelet says which they are."""
        for name in WHOLE_CARDS & amounts.keys():
            self._known_of(name, row)[row] += sign * amounts[name]

    @property
    def is_anywhere(self) -> bool:
        """Whether there is a node on which anything of this matters."""
        return bool(self._shown or self._at_zero)

    def rows_of(self, asked: Iterable[str]) -> set[int]:
        """The rows on which what these names ask for is not chosen by minor alone."""
        found = {int(row) for shown in self._shown.values() for row in np.flatnonzero(shown)}
        return found.union(*(self._at_zero.get(name, ()) for name in asked))

    def state(self, row: int) -> object:
        """What of this node the answers for pods depend on, to be compared."""
        target, names = Target(row), [name for name in self._shown if self.shows(name, row)]
        zeros = tuple(name for name, rows in self._at_zero.items() if row in rows)
        held = ((name, self._held_under(name, target), self._unknown_under(name, target)) for name in names)
        return (*held, *zeros)

    def shows(self, resource: str, row: int) -> bool:
        """Whether the node's status names this count, at whatever amount."""
        shown = self._shown.get(resource)
        return shown is not None and row < shown.shape[0] and bool(shown[row])

    def picks(self, row: int) -> bool:
        """Whether kubelet picks cards there."""
        return any(self.shows(name, row) for name in self._shown)

    # --- for a pod ---------------------------------------------------------------------------------------------------

    def at_zero(self, asked: Iterable[str], rows: Rows) -> Mask | None:
        """Of these rows those that show one of these names at 0; None: none does."""
        found = {row for name in asked for row in self._at_zero.get(name, ())}
        if not found:
            return None
        mask = np.zeros(self._nodes.alive.shape, np.bool_)
        mask[list(found)] = True
        of_rows: Mask = mask[rows]
        return of_rows

    def is_at_zero(self, asked: Iterable[str], row: int) -> bool:
        """Whether the node shows one of these names at 0."""
        return any(row in self._at_zero.get(name, ()) for name in asked)

    def mask(self, number: Number | None, rows: Rows, by_minor: Mask) -> Mask:
        """The rows that take a pod which asks for GPUs, if these take it by minor."""
        if not self._shown:
            return by_minor
        found = by_minor
        for name in self._shown:
            found = found & ~(self._of(name)[rows] & (self._unknown(name, rows) > 0))
        if number is not None and number.resource in self._shown:
            found = np.where(self._of(number.resource)[rows], self._enough(number, rows), found)
        return found

    def _enough(self, number: Number, rows: Rows) -> Mask:
        nodes = self._nodes
        if not number.is_plain:
            return np.zeros(nodes.alive[rows].shape, np.bool_)
        enough: Mask = nodes.free[nodes.column(number.resource), rows] >= number.amount
        enough &= (nodes.unreadable[rows] == 0) & ~nodes.has_cordoned_cards[rows]
        listed = nodes.has_cards[rows]
        enough &= ~listed | (nodes.gpu_count[rows] - self._held(number.resource, rows) >= number.amount)
        if self._by_minor:
            free = np.ones(nodes.alive.shape, np.bool_)
            free[list(self._by_minor)] = False
            enough &= free[rows]
        return enough

    def refusal(self, number: Number | None, target: Target) -> Rejection | None:
        """Why the node takes no pod that asks for GPUs, as far as kubelet's counts are concerned."""
        row = target.row
        gone, there = target.hypothesis
        if number is None or not self.shows(number.resource, row):
            names = [name for name in self._shown if self.shows(name, row)]
            unknown = sum(self._unknown_under(name, target) for name in names)
            return Rejection((BY_NUMBER,)) if unknown > 0 else None
        if not number.is_plain:
            return Rejection((NOT_BY_NUMBER,), resolvable=False)
        if self._nodes.has_cordoned_cards[row]:
            return Rejection((CORDONED,), resolvable=False)
        hidden = self._by_minor.get(row, 0) + sum(map(_unknown_of, there))
        hidden -= sum(_unknown_of(claim) for claim in gone if not claim.is_reservation)
        if hidden > 0:
            return Rejection((BY_MINOR,))
        offered = self._offered(number.resource, row)
        short = self._held_under(number.resource, target) + number.amount - offered
        if short > 0:
            reason = f"Insufficient {number.resource}"
            return Rejection((reason,), number.amount <= offered, {number.resource: short})
        return None

    def lacking(self, number: Number, row: int, count: int) -> Lacking | None:
        """See `Freeable`, of a row that shows the count."""
        short = self._short(number, row, count)
        if short is None:
            return None
        things = (UNSAID,) if self._nodes.unreadable[row] else ()
        things = (*things, HIDDEN) if self._by_minor.get(row) else things
        return Lacking({number.resource: short} if short else {}, things)

    def _short(self, number: Number, row: int, count: int) -> int | None:
        """How many cards are lacking for so many pods; None: the node never has as many."""
        offered = self._offered(number.resource, row)
        wanted = number.amount * count
        if not number.is_plain or wanted > offered or self._nodes.has_cordoned_cards[row]:
            return None
        return max(0, wanted - (offered - self._held_under(number.resource, Target(row))))

    def distance(self, number: Number | None, rows: RowArray, counts: RowArray, by_minor: Floats) -> Floats:
        """See `Freeable`; `by_minor` is that of nodes on which kubelet picks nothing."""
        if number is None or number.resource not in self._shown:
            return by_minor
        shown = self._of(number.resource)[rows]
        for place in np.flatnonzero(shown).tolist():
            short = self._short(number, int(rows[place]), int(counts[place]))
            by_minor[place] = np.inf if short is None else short / number.amount
        return by_minor

    # --- within ------------------------------------------------------------------------------------------------------

    def _of(self, name: str) -> Mask:
        shown, size = self._shown[name], self._nodes.alive.shape[0]
        if shown.shape[0] < size:
            shown = self._shown[name] = np.pad(shown, (0, size - shown.shape[0]))
        return shown

    def _held(self, name: str, rows: Rows) -> RowArray:
        nodes, column = self._nodes, self._nodes.column(name)
        held: RowArray = nodes.allocatable[column, rows] - nodes.free[column, rows]
        return held

    def _known_of(self, name: str, row: int) -> RowArray:
        """The column of this name, which has the row."""
        known, size = self._known.get(name, np.zeros(0, np.intp)), self._nodes.alive.shape[0]
        if row >= known.shape[0]:
            known = self._known[name] = np.pad(known, (0, size - known.shape[0]))
        return known

    def _unknown(self, name: str, rows: Rows) -> RowArray:
        """How many of the count are held of which nobody knows which cards they are."""
        held = self._held(name, rows)
        if name not in self._known:
            return held
        unknown: RowArray = held - self._known_of(name, self._nodes.alive.shape[0] - 1)[rows]
        return unknown

    def _unknown_under(self, name: str, target: Target) -> int:
        gone, there = target.hypothesis
        known = int(self._known_of(name, target.row)[target.row]) if name in self._known else 0
        known -= sum(each.amounts.get(name, 0) for each in gone if each.by_kubelet)
        known += sum(each.amounts.get(name, 0) for each in there if each.by_kubelet)
        return self._held_under(name, target) - known

    def _held_under(self, name: str, target: Target) -> int:
        gone, there = target.hypothesis
        nodes, column = self._nodes, self._nodes.column(name)
        held = int(nodes.allocatable[column, target.row] - nodes.free[column, target.row])
        return held - sum(each.amounts.get(name, 0) for each in gone) + sum(each.amounts.get(name, 0) for each in there)

    def _offered(self, name: str, row: int) -> int:
        """What kubelet shows, and no more than the healthy cards that are listed, where any are."""
        nodes = self._nodes
        shown = int(nodes.allocatable[nodes.column(name), row])
        return min(shown, int(nodes.gpu_count[row])) if nodes.has_cards[row] else shown


def has_cards(inventory: NodeInventory | None) -> bool:
    """Whether GPUs are listed of which kubelet counts whole ones: of those that MIG divides it may count the parts."""
    cards = [slot for slot in (inventory.devices if inventory is not None else ()) if slot.kind == GPU.name]
    return bool(cards) and all(slot.healthy or slot.reason != DIVIDED for slot in cards)


def has_cordoned_cards(inventory: NodeInventory | None) -> bool:
    """Whether a GPU is kept out by an annotation, which kubelet does not read."""
    listed = inventory.devices if inventory is not None else ()
    return any(slot.kind == GPU.name and not slot.healthy and slot.reason == REASON for slot in listed)


def _unknown_of(claim: Claim) -> int:
    return _unknown_to_kubelet(claim.amounts, claim.grants)


def _unknown_to_kubelet(amounts: Mapping[str, int], grants: Iterable[Grant]) -> int:
    """How many cards are held by minor of who asks for no vendor's count."""
    if any(amounts.get(name, 0) > 0 for name in WHOLE_CARDS):
        return 0
    return sum(1 for grant in grants if grant.kind == GPU.name)
