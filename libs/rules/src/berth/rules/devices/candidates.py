"""Which devices of a family may be taken for a request, by the hint, the NUMA nodes and who else is there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from berth.rules.devices.allocate import Offer, offers_of
from berth.rules.devices.columns import GPU, MEMORY, NPU
from berth.rules.devices.hints import PCIE_LEVEL, Hint
from berth.rules.devices.ordering import Candidate
from berth.rules.devices.scoring import Scoring, score
from berth.rules.devices.slots import Function, Grant, NoCapacity, Slot
from berth.rules.devices.vendor_limits import Limit, beyond
from berth.rules.devices.want import Want


class Narrowing(NamedTuple):
    """What narrows the choice beside the request.

    `zones` are the NUMA nodes to stay on; a device on none of them is in all, one without a place in none. `preferred`
    minors are tried first and `required` ones are the only ones allowed: how a reservation narrows the choice.
    `sealed` PCIe roots are kept by their holders. `limit` see `NodeDevices`.
    """

    zones: frozenset[int] | None = None
    preferred: frozenset[int] = frozenset()
    required: frozenset[int] | None = None
    sealed: frozenset[str] = frozenset()
    limit: Limit | None = None


EVERYTHING = Narrowing()


class Candidates(NamedTuple):
    """The devices of a family that a request may get.

    `slots` are all of the node; `listed` the minors that the request allows, `offers` those of them that can serve it
    now. `functions` are the virtual functions that would go with them, where the request takes some.
    """

    want: Want
    slots: Sequence[Slot]
    listed: frozenset[int]
    offers: Mapping[int, Offer]
    functions: Mapping[int, Function]
    scoring: Scoring | None = None
    preferred: Collection[int] = ()

    def ranked(self) -> list[Candidate]:
        """Everything listed with its score, also what cannot serve now."""
        if self.scoring is None:
            return [Candidate(slot.minor) for slot in self.slots if slot.minor in self.listed]
        want, scoring = self.want, self.scoring
        return [
            Candidate(slot.minor, score(slot.total, slot.free, want.amounts, scoring))
            for slot in self.slots
            if slot.minor in self.listed
        ]

    def grants(self, minors: Iterable[int], template: str = "") -> tuple[Grant, ...]:
        """What is taken from these devices, by rising minor."""
        return tuple(
            Grant(
                minor,
                self.offers[minor].filled,
                (self.functions[minor],) if minor in self.functions else (),
                template,
            )
            for minor in sorted(minors)
        )

    def used(self) -> frozenset[int]:
        """The minors of which somebody holds a part."""
        return frozenset(slot.minor for slot in self.slots if any(slot.used))


def candidates(
    slots: Sequence[Slot],
    want: Want,
    hint: Hint,
    narrowing: Narrowing = EVERYTHING,
    scoring: Scoring | None = None,
) -> Candidates | NoCapacity:
    """The candidates of a family; NoCapacity where it is plain that there are none."""
    kind = want.family.name
    if not slots:
        return NoCapacity(f"Insufficient {kind} devices", unresolvable=True)
    if hint.functions is not None and not any(slot.functions for slot in slots):
        return NoCapacity(f"Insufficient {kind} VirtualFunctions", unresolvable=True)
    listed = frozenset(slot.minor for slot in slots if _listed(slot, hint, narrowing))
    if not listed:
        return NoCapacity(f"Insufficient {kind} devices")
    limit = narrowing.limit if want.family is GPU else None
    refusal = beyond(limit, want) if limit is not None else None
    if refusal is not None:
        return refusal
    functions = _functions(slots, listed, hint)
    able = listed if functions is None else listed & functions.keys()
    occupied = narrowing.sealed
    if hint.exclusive == PCIE_LEVEL:
        # A device whose place is unknown may be anywhere, so it is beside every device in use.
        used = {slot.pcie for slot in slots if any(slot.used)}
        occupied = occupied.union(used, [""]) if "" not in used else frozenset(slot.pcie for slot in slots)
    if occupied:
        able = able.intersection(slot.minor for slot in slots if slot.pcie not in occupied)
    if want.family is GPU and want.shared:
        able = able.intersection(slot.minor for slot in slots if _is_cut_alike(slot, want))
    offers = offers_of(slots, want, able, scoring)
    if limit is not None:
        offers = {minor: offer for minor, offer in offers.items() if offer.filled[MEMORY] >= limit.memory}
    return Candidates(want, slots, listed, offers, functions or {}, scoring, narrowing.preferred)


def _listed(slot: Slot, hint: Hint, narrowing: Narrowing) -> bool:
    if narrowing.required is not None and slot.minor not in narrowing.required:
        return False
    if hint.selector is not None and not hint.selector(dict(slot.labels)):
        return False
    return narrowing.zones is None or slot.numa in narrowing.zones or (slot.numa < 0 and bool(slot.pcie))


def _is_cut_alike(slot: Slot, want: Want) -> bool:
    """A chip is cut into virtual NPUs or shared in another way, never both."""
    return not any(slot.used) or bool(slot.used[NPU]) == bool(want.amounts[NPU])


def _functions(slots: Sequence[Slot], listed: frozenset[int], hint: Hint) -> dict[int, Function] | None:
    """The free matching virtual function of the lowest address by minor, None where none is asked for."""
    test = hint.functions
    if test is None:
        return None
    found: dict[int, Function] = {}
    for slot in slots:
        if slot.minor in listed:
            free = (each for each in slot.functions if each.bus not in slot.busy and test(dict(each.labels)))
            lowest = min(free, key=lambda each: each.bus, default=None)
            if lowest is not None:
                found[slot.minor] = lowest
    return found
