"""DeviceShare: devices of the node serve the request, of every kind and at the places that it asks for.

Pods that take any GPUs, by far the most, are answered for all nodes at once; of others the mask lets through what has
enough of each kind, and the choice itself (`berth.rules.devices`) says the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.ledger import Grant as Granted
from berth.placement_solver.core.devices import GPU, MOST_ALLOCATED, NoCapacity, Scoring, Slot, allocate, scoring_of
from berth.placement_solver.core.devices.asked import Answer, DeviceQuery, query_of
from berth.placement_solver.core.devices.freeing import devices_to_free, what_to_free
from berth.placement_solver.core.devices.kubelet_counts import AT_ZERO, COUNTED, UNSAID
from berth.placement_solver.core.devices.node_rules import PLAIN
from berth.placement_solver.core.devices.record import held_devices
from berth.placement_solver.core.devices.rows import own_roots
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.npu_templates import NpuTemplates, place_of
from berth.placement_solver.core.seams import (
    Depends,
    Floats,
    Lacking,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
    Unusable,
)
from berth.rules.bounded_json import annotation_field
from berth.rules.devices.candidates import Narrowing
from berth.rules.devices.choose import NO_NARROWING, choose_devices
from berth.rules.devices.columns import FAMILIES
from berth.rules.devices.hints import NO_HINT, PCIE_LEVEL
from berth.rules.devices.kubelet_counts import NUMBER
from berth.rules.devices.node import NodeDevices
from berth.rules.devices.numa_hints import choose_on, device_hints
from berth.rules.devices.request import read_request, sized
from berth.rules.devices.reserved import RESTRICTED, ReservedDevices, offered_by
from berth.rules.devices.want import Want
from berth.rules.numa.hints import Hint, Hints
from berth.rules.records.device_allocated import DeviceAllocated
from berth.rules.scheduler_config import DeviceShareArgs, DeviceStrategy
from berth.transaction.claims import Claim

NAME: Final = "DeviceShare"
UNREAD: Final = "node(s) hold pods whose devices are unknown"
UNCOUNTED: Final = "node(s) whose devices wait to be counted by device-inventory"
INSUFFICIENT: Final = "Insufficient gpu devices"
WAIT: Final = "none is needed; if this lasts, see whether device-inventory and cluster-watcher work"
"""For who may fit once devices are counted."""
PACK: Final = {kind: scoring_of(family, MOST_ALLOCATED) for kind, family in FAMILIES.items()}
"""Of devices that serve alike the fullest is taken."""
_RECORD: Final = DeviceAllocated()
_EXCLUSIVE: Final = f"{annotation_field(names.ANNOTATION_DEVICE_HINT)}.{GPU.name}.exclusivePolicy"


def scorings_of(strategy: DeviceStrategy) -> dict[str, Scoring]:
    """A strategy by type of devices."""
    return {kind: scoring_of(family, strategy.type, strategy.weights) for kind, family in FAMILIES.items()}


class DeviceShare:
    """The query is the request with what makes it quick."""

    name = NAME
    depends = Depends.CAPACITY
    exact = False

    def __init__(self, nodes: Nodes, npu_templates: NpuTemplates, args: DeviceShareArgs | None = None) -> None:
        args = args or DeviceShareArgs()
        self._nodes = nodes
        self._npu_templates = npu_templates
        self._npu_table, self._npu_triggers = place_of(args), frozenset(args.templates.matched_resources)
        npu_templates.of(self._npu_table)  # so that what is wrong with it is named before somebody asks
        self.is_aligned = not args.disable_numa_alignment
        """Whether devices lie where CPUs and memory lie under a NUMA policy."""
        strategy = args.scoring_strategy
        self.scoring: Mapping[str, Scoring] = PACK if strategy is None else scorings_of(strategy)
        """How devices that serve alike are rated, by type."""

    def prefilter(self, spec: Spec) -> DeviceQuery | Rejection | Unusable | None:
        """See `Constraint`."""
        template = spec.template
        if not _RECORD.asks(template):
            return None
        request = read_request(template.requests, template.annotations)
        if isinstance(request, Problem):
            return Unusable((request,))
        if not request.amounts:
            return None
        request = sized(request, self._npu_templates.of(self._npu_table), self._npu_triggers)
        if isinstance(request, Problem):
            return Rejection((request.message,), resolvable=False)
        if request.templates is not None and request.hints.get(GPU.name, NO_HINT).exclusive == PCIE_LEVEL:
            return Unusable((Problem(field=_EXCLUSIVE, message=f"{PCIE_LEVEL} is not supported for virtual NPUs"),))
        return query_of(request, template.requests)

    def mask(self, query: DeviceQuery, rows: Rows) -> Mask:
        """See `Constraint`."""
        nodes = self._nodes
        found: Mask = (nodes.unknown_cards if query.takes_cards else nodes.unreadable)[rows] == 0
        for kind, want in query.least:
            found &= nodes.devices.fleet(kind).fits(want, rows)
        if query.takes_cards:
            found = nodes.counts.mask(query.number, rows, found)
        zero = nodes.counts.at_zero(query.names, rows)
        return found if zero is None else found & ~zero

    def admits(self, query: DeviceQuery, row: int) -> bool:
        """See `Constraint`."""
        nodes = self._nodes
        if nodes.counts.is_anywhere:
            if nodes.unreadable[row] or nodes.counts.is_at_zero(query.names, row):
                return False
            if query.takes_cards:
                if nodes.counts.refusal(query.number, Target(row)) is not None:
                    return False
                if self.is_by_number(query, row):
                    return True
        if (nodes.unknown_cards if query.takes_cards else nodes.unreadable)[row]:
            return False
        devices = nodes.devices
        for kind, want in query.least:
            if not (devices.cards(row).fit(want) if kind == GPU.name else _fit(devices.slots[kind][row], want)):
                return False
        return True

    def filter(self, query: DeviceQuery, target: Target) -> Rejection | None:
        """See `Constraint`."""
        nodes, row = self._nodes, target.row
        gone, there = target.hypothesis
        if nodes.uncounted[row]:
            return Rejection((UNCOUNTED,))
        if nodes.counts.is_anywhere and nodes.counts.is_at_zero(query.names, row):
            return Rejection((AT_ZERO,), resolvable=False)
        if int(nodes.unreadable[row]) - _unread(gone) + _unread(there) > 0:
            return Rejection((UNREAD,))
        if query.takes_cards and nodes.counts.is_anywhere:
            refusal = nodes.counts.refusal(query.number, target)
            if refusal is not None or self.is_by_number(query, row):
                return refusal
        if query.takes_cards and int(nodes.unknown_cards[row]) - _unknown(gone) + _unknown(there) > 0:
            return Rejection((UNREAD,))
        want = self.plain_want(query, target)
        if want is not None:
            short = isinstance(allocate(self.cards(target), want), NoCapacity)
            return Rejection((INSUFFICIENT,), bool(nodes.gpu_count[row])) if short else None
        answer = self.choose(query, target)
        return Rejection((answer.reason,), not answer.unresolvable) if isinstance(answer, NoCapacity) else None

    def is_by_number(self, query: DeviceQuery, row: int) -> bool:
        """Whether kubelet picks the cards of such a pod there, so that it is granted none by minor."""
        return query.number is not None and self._nodes.counts.shows(query.number.resource, row)

    def plain_want(self, query: DeviceQuery, target: Target) -> Want | None:
        """What is taken of GPUs where any that are free serve; None where the whole choice has to be asked."""
        want = query.cards if query.is_plain else None
        if want is None or target.zones is not None or _is_restricted(target):
            return None
        row, there = target.row, target.hypothesis.there
        if row in self._nodes.devices.own_roots or (there and own_roots(_grants(there))):
            return None
        rules = self._nodes.device_rules.get(row)
        return want if rules is None or (want.shared and not rules.narrows_shares) else None

    def cards(self, target: Target) -> tuple[Slot, ...]:
        """The GPUs of the node under the hypothesis."""
        gone, there = target.hypothesis
        if not gone and not there:
            return self._nodes.devices.slots[GPU.name][target.row]
        return self._nodes.devices.under(target.row, (GPU.name,), _grants(gone), _grants(there))[GPU.name]

    def choose(self, query: DeviceQuery, target: Target) -> Answer:
        """The devices of the node under the hypothesis that the pod gets, or why there are none."""
        row = target.row
        if target.zones is not None or _is_supposed(target):
            return self._choose(query, target)
        version = self._nodes.devices.versions[row]
        known = query.known.get(row)
        if known is not None and known[0] == version:
            return known[1]
        answer = self._choose(query, target)
        query.remember(row, version, answer)
        return answer

    def _choose(self, query: DeviceQuery, target: Target) -> Answer:
        node, narrowing = self._offered(query, target)
        if target.zones is not None:
            return choose_on(node, query.request, target.zones, scoring=self.scoring, narrowing=narrowing)
        return choose_devices(node, query.request, scoring=self.scoring, narrowing=narrowing)

    def _offered(self, query: DeviceQuery, target: Target) -> tuple[NodeDevices, Mapping[str, Narrowing]]:
        """What the node has for the pod, and what narrows the choice: of a reservation that it draws on."""
        gone, there = target.hypothesis
        left = [claim for claim in gone if target.reservation and claim.uid == target.reservation]
        others = [claim for claim in gone if claim not in left] if left else gone
        node = self._node(query, target.row, others, there)
        if not target.reservation:
            return node, NO_NARROWING
        reservation = ReservedDevices(
            policy=RESTRICTED if _is_restricted(target) else "",
            reserved=held_devices(target.held),
            left=held_devices(_grants(left)),
        )
        return offered_by(node, query.request, reservation)

    # --- beside CPUs and memory --------------------------------------------------------------------------------------

    def hints(self, query: DeviceQuery, target: Target, *, only_smallest: bool) -> Hints:
        """See `ZoneHinter`. The same sets for each type of device that is asked for."""
        row = target.row
        key = (self.version(row), only_smallest)
        known = None if _is_supposed(target) else query.known_hints.get(row)
        if known is not None and known[0] == key:
            return known[1]
        found: Hints = {}
        if self.filter(query, target) is None and not self.is_by_number(query, row):
            node, narrowing = self._offered(query, target)
            sets = device_hints(
                node, query.request, scoring=self.scoring, narrowing=narrowing, only_smallest=only_smallest
            )
            # None at all: they would do, but for where they lie.
            listed = () if isinstance(sets, NoCapacity) else sets
            same = tuple(Hint(each.zones, each.is_preferred, each.score) for each in listed)
            found = dict.fromkeys(query.request.amounts, same)
        if not _is_supposed(target):
            query.remember_hints(row, key, found)
        return found

    def version(self, row: int) -> object:
        """See `ZoneHinter`."""
        nodes = self._nodes
        picks = nodes.counts.state(row)
        return nodes.devices.versions[row], int(nodes.unknown_cards[row]), bool(nodes.uncounted[row]), picks

    def lacking_on(self, query: DeviceQuery, row: int, zone: int) -> list[str] | None:
        """What has to become free of the devices of one NUMA node so that they serve a pod, in words; None: they never
        do."""
        node = self._node(query, row)
        slots = {
            kind: [slot for slot in mine if slot.numa == zone or (slot.numa < 0 and slot.pcie)]
            for kind, mine in node.slots.items()
        }
        return what_to_free(node._replace(slots=slots), query.request, 1, self.scoring)

    # --- within ------------------------------------------------------------------------------------------------------

    def _node(
        self, query: DeviceQuery, row: int, gone: Iterable[Claim] = (), there: Iterable[Claim] = ()
    ) -> NodeDevices:
        nodes = self._nodes
        kinds, left, more = query.request.amounts, _grants(gone), _grants(there)
        slots, sealed = nodes.devices.under(row, kinds, left, more), nodes.devices.sealed(row, kinds, left, more)
        rules = nodes.device_rules.get(row, PLAIN)
        return NodeDevices(slots, rules.partitions, rules.npu_model, sealed=sealed, limit=rules.limit)

    def rejections(self, query: DeviceQuery, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        nodes, want = self._nodes, query.cards if query.is_plain else None
        if want is None:
            return self._one_by_one(query, rows, range(rows.size))
        choosing = self._choosing(query, rows)
        uncounted: Mask = nodes.uncounted[rows]
        unread: Mask = (nodes.unknown_cards[rows] > 0) & ~uncounted
        short: Mask = ~(unread | uncounted) & ~nodes.fleet.fits(want, rows)
        has_any: Mask = nodes.gpu_count[rows] > 0
        for mask in (uncounted, unread, short):
            mask[choosing] = False
        return [
            Rejected(INSUFFICIENT, short & has_any),
            Rejected(INSUFFICIENT, short & ~has_any, resolvable=False),
            Rejected(UNREAD, unread),
            Rejected(UNCOUNTED, uncounted, repair=WAIT),
            *self._one_by_one(query, rows, choosing),
        ]

    def _choosing(self, query: DeviceQuery, rows: RowArray) -> list[int]:
        """The places of those rows on which the whole choice has to be asked."""
        nodes = self._nodes
        counted = nodes.counts.rows_of(query.names)
        known = [*nodes.device_rules, *nodes.devices.own_roots, *counted]
        places = np.flatnonzero(np.isin(rows, known)).tolist() if known else ()
        return [
            place
            for place in places
            if int(rows[place]) in counted or self.plain_want(query, Target(int(rows[place]))) is None
        ]

    def _one_by_one(self, query: DeviceQuery, rows: RowArray, which: Iterable[int]) -> list[Rejected]:
        """What is said of the rows at these places."""
        found: dict[tuple[str, bool], list[int]] = {}
        for place in which:
            rejection = self.filter(query, Target(int(rows[place])))
            if rejection is not None:
                found.setdefault((rejection.reasons[0], rejection.resolvable), []).append(place)
        rejected: list[Rejected] = []
        for (reason, resolvable), places in found.items():
            mask = np.zeros(rows.shape, np.bool_)
            mask[places] = True
            rejected.append(Rejected(reason, mask, resolvable, WAIT if reason == UNCOUNTED else ""))
        return rejected

    def distance(self, query: DeviceQuery, rows: RowArray, counts: RowArray) -> Floats:
        """See `Freeable`."""
        nodes = self._nodes
        unknown = nodes.unknown_cards if query.takes_cards else nodes.unreadable
        distance: Floats = np.where(unknown[rows] > 0, 1000.0, 0.0)
        for kind, want in query.least:
            fleet = nodes.devices.fleet(kind)
            ready = np.count_nonzero(fleet.candidates(want, rows), axis=0)
            distance += np.maximum(counts * want.instances - ready, 0) / want.instances
            distance[fleet.count[rows] < want.instances] = np.inf
        return nodes.counts.distance(query.number, rows, counts, distance)

    def lacking(self, query: DeviceQuery, row: int, count: int) -> Lacking | None:
        """See `Freeable`."""
        nodes, less = self._nodes, ""
        if nodes.counts.is_at_zero(query.names, row):
            return None
        if query.number is not None and self.is_by_number(query, row):
            return nodes.counts.lacking(query.number, row, count)
        want = self.plain_want(query, Target(row))
        if want is not None:
            freed = devices_to_free(nodes.devices.slots[GPU.name][row], want, count)
            words = freed.words if freed is not None else None
            left = want.instances - freed.devices if freed is not None and freed.devices and not want.shared else 0
            less = ("1 GPU" if left == 1 else f"{left} GPUs") if left > 0 else ""
        else:
            words = what_to_free(self._node(query, row), query.request, count, self.scoring)
        if words is None:
            return None
        if (nodes.unknown_cards if query.takes_cards else nodes.unreadable)[row]:
            return Lacking(things=(*words, UNSAID))
        if query.takes_cards and nodes.counts.refusal(query.number, Target(row)) is not None:
            return Lacking(things=(*words, COUNTED))
        return Lacking(things=tuple(words), less=less)

    def shares_node(self, query: DeviceQuery) -> bool:
        """See `Freeable`."""
        return True


def _fit(slots: Iterable[Slot], want: Want) -> bool:
    """Whether enough devices have that much free; what `Fleet.fits` says of one row."""
    enough = 0
    for slot in slots:
        if all(free >= amount for free, amount in zip(slot.free, want.amounts, strict=True)):
            enough += 1
    return enough >= want.instances


def _is_supposed(target: Target) -> bool:
    """Whether the node is seen otherwise than as it is charged."""
    return bool(target.hypothesis.gone or target.hypothesis.there or target.reservation)


def _is_restricted(target: Target) -> bool:
    """Whether devices may come from the reservation alone."""
    return not target.restricted.isdisjoint(_RECORD.resources)


def _unread(claims: Iterable[Claim]) -> int:
    return sum(1 for claim in claims if DeviceAllocated.name in claim.unreadable)


def _unknown(claims: Iterable[Claim]) -> int:
    """How many hold GPUs of which nobody knows the minors."""
    return sum(1 for claim in claims if DeviceAllocated.name in claim.unreadable or NUMBER in claim.unreadable)


def _grants(claims: Iterable[Claim]) -> list[Granted]:
    return [grant for claim in claims for grant in claim.grants]
