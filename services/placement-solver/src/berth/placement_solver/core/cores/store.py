"""CPUs and NUMA nodes over all nodes: who holds what, and how much is free, by row.

What one node has free follows from its topology, from the holders of CPUs and of shares of NUMA nodes there, and from
the sum of what everybody else takes, which the columns of the nodes have: those who were given no NUMA node count
together, as one, in proportion to what the NUMA nodes have. So a pod that has none of it costs nothing here.

For many nodes at once there are columns: of CPUs the number that is free, of whole cores and of one of each core, and
the same by NUMA node, with its amounts. Columns of NUMA nodes are brought up to date when they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from berth.contracts.base import Problem
from berth.contracts.ledger import Grant
from berth.contracts.names import ANNOTATION_AMPLIFICATION_RATIO, CPU
from berth.contracts.state import Node
from berth.contracts.topology import NodeTopology
from berth.placement_solver.core.cores.asked import CoresAsked, Verdict
from berth.placement_solver.core.cores.ground import LAYOUTS_MAX, NOWHERE, Ground, ground_of
from berth.placement_solver.core.cores.held import Holder, holder_of, holdings
from berth.placement_solver.core.cores.make import LABELS, PLAIN, Make, make_of
from berth.placement_solver.core.seams import NOTHING, Hypothesis
from berth.resources.amounts import Amounts, add_into, subtract_from
from berth.rules.amplification import read_ratios
from berth.rules.cpus.available import FULL_PCPUS, SPREAD_BY_PCPUS, available_cpus, usable_cpus
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.layout import CpuLayout
from berth.rules.numa.charges import amplified_capacity, charge, cpus_by_zone, total_charges, zone_use
from berth.rules.numa.exclusive import SHARED, zone_status
from berth.rules.numa.split import NodeZones
from berth.rules.records.resource_status import ResourceStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from berth.placement_solver.core.nodes import Nodes

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

KINDS: Final = ("", FULL_PCPUS, SPREAD_BY_PCPUS)
"""What is counted of free CPUs: any; by a bind policy that must hold, those that it can use."""
MAKES_MAX: Final = 4096
FEW: Final = 64
"""So many changed rows are brought up to date whatever the number of nodes."""


@dataclass(slots=True)
class _Row:
    """One node with a topology, or with holders of something that a topology would show."""

    ground: Ground = NOWHERE
    holders: list[Holder] = field(default_factory=list)
    blocked: int = 0
    is_uncounted: bool = False
    changes: int = 0
    free: frozenset[int] | None = None
    zones: tuple[object, NodeZones] | None = None


_UNKNOWN: Final = _Row()


class ZoneColumns:
    """By NUMA node (its place among those of its node) and row.

    `there`: whether there is one. `shared`: whether a pod across several holds it. `cpus` has the free CPUs of each of
    `KINDS`, `free` what is left of each resource in the amounts that the node shows, by its place in `resources`;
    `reported` says of which rows' NUMA nodes have the resource at all.
    """

    def __init__(self) -> None:
        self.there: Mask = np.zeros((0, 0), np.bool_)
        self.shared: Mask = np.zeros((0, 0), np.bool_)
        self.cpus: Ints = np.zeros((len(KINDS), 0, 0), np.int64)
        self.free: Ints = np.zeros((0, 0, 0), np.int64)
        self.reported: Mask = np.zeros((0, 0), np.bool_)
        self.resources: dict[str, int] = {}

    def fit(self, zones: int, names: Iterable[str], rows: int) -> None:
        """Make room for so many NUMA nodes, these resources and so many rows."""
        for name in names:
            self.resources.setdefault(name, len(self.resources))
        have_zones, have_rows = self.there.shape
        more = (len(self.resources) - self.free.shape[0], max(0, zones - have_zones), max(0, rows - have_rows))
        if any(more):
            of_resources, of_zones, of_rows = ((0, each) for each in more)
            self.there = np.pad(self.there, (of_zones, of_rows))
            self.shared = np.pad(self.shared, (of_zones, of_rows))
            self.cpus = np.pad(self.cpus, ((0, 0), of_zones, of_rows))
            self.free = np.pad(self.free, (of_resources, of_zones, of_rows))
            self.reported = np.pad(self.reported, (of_resources, of_rows))

    def write(self, row: int, node: NodeZones, status: Mapping[int, str]) -> None:
        """Set what a node has."""
        self.there[:, row] = False
        self.reported[:, row] = False
        usable = [usable_cpus(node.layout, node.free_cpus, kind) for kind in KINDS] if node.layout is not None else []
        for place, zone in enumerate(node.zones):
            self.there[place, row] = True
            self.shared[place, row] = status.get(zone) == SHARED
            here = node.layout.zone_cpus.get(zone, NO_CPUS) if node.layout is not None else NO_CPUS
            for kind, cpus in enumerate(usable):
                self.cpus[kind, place, row] = len(cpus & here)
            if not usable:
                self.cpus[:, place, row] = 0
            self.free[:, place, row] = 0
            for name, amount in node.available[zone].items():
                self.free[self.resources[name], place, row] = amount
                self.reported[self.resources[name], row] = True


class Cores:
    """See the module. `make` is the make of each row by its place in `makes`, `blocked` how many holders there are of
    whom nobody knows what they hold, `free` the number of free CPUs of each of `KINDS`, `pinned` that of those which
    pods have to themselves, `ratios` how many times its cpu a node shows."""

    def __init__(self, nodes: Nodes, capacity: int = 64) -> None:
        self._nodes = nodes
        self._rows: dict[int, _Row] = {}
        self._changes = 0
        self.makes: list[Make] = [PLAIN]
        self._codes: dict[Make, int] = {PLAIN: 0}
        self._generation = 0
        self._imposing: list[bool] = [PLAIN.imposes]  # by make
        self._imposing_rows = 0
        self.make = np.zeros(capacity, np.int32)
        self.blocked: Ints = np.zeros(capacity, np.int64)
        self.uncounted: Mask = np.zeros(capacity, np.bool_)
        self.free: Ints = np.zeros((len(KINDS), capacity), np.int64)
        self.pinned: Ints = np.zeros(capacity, np.int64)
        self.ratios: Floats = np.ones(capacity)
        self._unmade: set[int] = set()
        self._unwritten: set[int] = set()
        self._zones = ZoneColumns()
        self._zones_at = -1

    # --- what happens ------------------------------------------------------------------------------------------------

    def see(self, row: int, topology: NodeTopology | None, *, is_uncounted: bool = False) -> None:
        """Take in the topology of a node; who holds what stays as it is. `is_uncounted`: it waits to be counted."""
        state = self._row(row)
        state.ground, state.is_uncounted = ground_of(topology), is_uncounted
        self._changed(row, state)
        self.uncounted[row] = is_uncounted
        self._remake(row)

    def reshaped(self, row: int, node: Node | None) -> None:
        """The labels of a node, or whether it is there, have changed. Most nodes say nothing of CPUs and NUMA nodes:
        they are of the make that all begin with, and nothing has to be worked out."""
        is_silent = node is None or (
            ANNOTATION_AMPLIFICATION_RATIO not in node.annotations and node.labels.keys().isdisjoint(LABELS)
        )
        if not is_silent or self.make[row]:
            self._unmade.add(row)

    def take(self, row: int, amounts: Mapping[str, int], grants: Iterable[Grant], sign: int) -> None:
        """Charge (1) or give back (-1) a holder, with all that it takes of the node."""
        holder = holder_of(amounts, grants)
        if holder is None:
            return
        state = self._row(row)
        if sign > 0:
            state.holders.append(holder)
        elif holder in state.holders:
            state.holders.remove(holder)
        self._changed(row, state)

    def block(self, row: int, sign: int) -> None:
        """There is one more holder of whom nobody knows what it holds, or (-1) one less."""
        self._row(row).blocked += sign
        self.blocked[row] += sign
        self._nodes.touched.add(row)

    def forget(self, row: int) -> None:
        """The row becomes another node's."""
        if self._rows.pop(row, None) is not None:
            self.blocked[row], self.uncounted[row] = 0, False
            self._unwritten.add(row)
            if row < self._zones.there.shape[1]:
                self._zones.there[:, row] = False
            self._remake(row)

    def widen(self, rows: int) -> None:
        """Make room for so many rows."""
        more = rows - self.make.shape[0]
        self.make = np.pad(self.make, (0, more))
        self.blocked = np.pad(self.blocked, (0, more))
        self.uncounted = np.pad(self.uncounted, (0, more))
        self.free = np.pad(self.free, ((0, 0), (0, more)))
        self.pinned = np.pad(self.pinned, (0, more))
        self.ratios = np.pad(self.ratios, (0, more), constant_values=1.0)

    def is_spare(self, row: int) -> bool:
        """Whether nothing is known of the row, and nothing is held there."""
        state = self._rows.get(row, _UNKNOWN)
        return state.ground is NOWHERE and not state.is_uncounted

    def _row(self, row: int) -> _Row:
        state = self._rows.get(row)
        if state is None:
            state = self._rows[row] = _Row()
        return state

    def _changed(self, row: int, state: _Row) -> None:
        # Counted over all rows: a row that became another node's must not come to a number that it has had.
        self._changes += 1
        state.changes = self._changes
        state.free = state.zones = None
        self._unwritten.add(row)
        self._nodes.touched.add(row)

    # --- makes -------------------------------------------------------------------------------------------------------

    @property
    def imposes(self) -> bool:
        """Whether pods that ask for neither CPUs nor NUMA nodes have to be looked at for some node."""
        self.follow()
        return self._imposing_rows > 0

    def follow(self) -> None:
        """Bring makes and the number of free CPUs up to date."""
        if self._unmade:
            for row in sorted(self._unmade):
                self._remake(row)
            self._unmade.clear()
        if self._unwritten:
            alike: dict[tuple[int, ...], list[int]] = {}
            for row in self._unwritten:
                alike.setdefault(self._counts(row), []).append(row)
            for (pinned, *free), rows in alike.items():
                self.pinned[rows] = pinned
                self.free[:, rows] = np.array(free)[:, np.newaxis]
            self._unwritten.clear()

    def _counts(self, row: int) -> tuple[int, ...]:
        """How many CPUs pods have to themselves there, and how many are free of each of `KINDS`."""
        state = self._rows.get(row, _UNKNOWN)
        layout = state.ground.layout
        if layout is None:
            return (0,) * (1 + len(KINDS))
        if not any(each.cpus for each in state.holders):
            return _counts_of_idle(layout, state.ground.reserved)
        return (len(self.pinned_cpus(row)), *_counts_of(layout, self.free_cpus(row)))

    def verdicts(self, query: CoresAsked) -> list[Verdict]:
        """What the query comes to on nodes of each make."""
        if query.verdicts_at != self._generation:
            query.verdicts, query.verdicts_at = [], self._generation
        query.verdicts += [query.verdict(make) for make in self.makes[len(query.verdicts) :]]
        return query.verdicts

    def make_of(self, row: int) -> Make:
        """The make of one row."""
        return self.makes[int(self.make[row])]

    def _remake(self, row: int) -> None:
        node = self._nodes.states[row]
        is_there = node is not None and not node.deleting
        labels = node.labels if node is not None and is_there else {}
        ground = self._rows.get(row, _UNKNOWN).ground
        text = node.annotations.get(ANNOTATION_AMPLIFICATION_RATIO, "") if node is not None and is_there else ""
        if ground is NOWHERE and not labels and not text and not self.make[row]:
            return
        ratio = ground.ratio or (_ratio(text) if text else 1.0)
        self.ratios[row] = max(1.0, ratio or 1.0)
        made = make_of(labels, ground, ratio and max(1.0, ratio))
        code = self._codes.get(made)
        if code is None:
            if len(self.makes) >= MAKES_MAX:
                self._renumber()
            code = self._codes[made] = len(self.makes)
            self.makes.append(made)
            self._imposing.append(made.imposes)
        before = int(self.make[row])
        if code != before:
            self._imposing_rows += self._imposing[code] - self._imposing[before]
            self.make[row] = code

    def _renumber(self) -> None:
        """Forget makes that no node has any more."""
        used = [self.makes[code] for code in sorted(set(self.make.tolist()) - {0})]
        codes = {made: code for code, made in enumerate([PLAIN, *used])}
        self.make = np.array([codes[self.makes[code]] for code in self.make.tolist()], np.int32)
        self.makes, self._codes = [PLAIN, *used], codes
        self._imposing = [made.imposes for made in self.makes]
        self._generation += 1

    # --- one node ----------------------------------------------------------------------------------------------------

    def ground(self, row: int) -> Ground:
        """What is known of a node."""
        return self._rows.get(row, _UNKNOWN).ground

    def unknown(self, row: int, hypothesis: Hypothesis = NOTHING) -> int:
        """How many hold something there of whom nobody knows what."""
        gone, there = hypothesis
        name = ResourceStatus.name
        more = sum(name in claim.unreadable for claim in there) - sum(name in claim.unreadable for claim in gone)
        return self._rows.get(row, _UNKNOWN).blocked + more

    def holders(self, row: int, hypothesis: Hypothesis = NOTHING) -> list[Holder]:
        """Who holds CPUs of his own or a share of a NUMA node there."""
        found = list(self._rows.get(row, _UNKNOWN).holders)
        for claim in hypothesis.gone:
            holder = holder_of(claim.amounts, claim.grants)
            if holder is not None and holder in found:
                found.remove(holder)
        for claim in hypothesis.there:
            holder = holder_of(claim.amounts, claim.grants)
            if holder is not None:
                found.append(holder)
        return found

    def free_cpus(self, row: int, hypothesis: Hypothesis = NOTHING) -> frozenset[int]:
        """The CPUs that may be given to one more pod as its own."""
        state = self._rows.get(row, _UNKNOWN)
        layout = state.ground.layout
        if layout is None:
            return NO_CPUS
        if hypothesis == NOTHING and state.free is not None:
            return state.free
        pinned = [each.cpus for each in self.holders(row, hypothesis)]
        free = available_cpus(layout, pinned, reserved=state.ground.reserved)
        if hypothesis == NOTHING:
            state.free = free
        return free

    def pinned_cpus(self, row: int, hypothesis: Hypothesis = NOTHING) -> frozenset[int]:
        """The CPUs that pods have to themselves."""
        layout = self.ground(row).layout
        if layout is None:
            return NO_CPUS
        return layout.all & NO_CPUS.union(*(each.cpus for each in self.holders(row, hypothesis)))

    def requested(self, row: int, name: str, hypothesis: Hypothesis = NOTHING) -> int:
        """What is taken of one resource of a node in all."""
        taken = self._used(row, (name,))[name]
        taken -= sum(claim.amounts.get(name, 0) for claim in hypothesis.gone)
        return taken + sum(claim.amounts.get(name, 0) for claim in hypothesis.there)

    def all_cpus(self, row: int) -> frozenset[int]:
        """The CPUs that pods may have as their own, were none of them held."""
        ground = self.ground(row)
        return ground.layout.all - ground.reserved if ground.layout is not None else NO_CPUS

    def changes(self, row: int) -> int:
        """Grows with each change of the topology of a node, and of who was granted some of it."""
        return self._rows.get(row, _UNKNOWN).changes

    def ratio(self, row: int) -> float:
        """How many times its cpu the node shows; 1 where neither topology nor node says so."""
        node = self._nodes.states[row]
        text = node.annotations.get(ANNOTATION_AMPLIFICATION_RATIO, "") if node is not None else ""
        return max(1.0, self.ground(row).ratio or (_ratio(text) if text else 1.0) or 1.0)

    def zones(self, row: int, hypothesis: Hypothesis = NOTHING) -> NodeZones:
        """The NUMA nodes as they stand."""
        state = self._rows.get(row, _UNKNOWN)
        ground, ratio = state.ground, self.ratio(row)
        used = self._used(row, {name for amounts in ground.capacity.values() for name in amounts})
        key = (state.changes, ratio, tuple(used.values()))
        if hypothesis == NOTHING and state.zones is not None and state.zones[0] == key:
            return state.zones[1]
        holders = self.holders(row, hypothesis)
        for claim in hypothesis.gone:
            subtract_from(used, {name: amount for name, amount in claim.amounts.items() if name in used})
        for claim in hypothesis.there:
            add_into(used, {name: amount for name, amount in claim.amounts.items() if name in used})
        found = zones_of(ground, ratio, used, holders, self.free_cpus(row, hypothesis))
        if hypothesis == NOTHING:
            state.zones = (key, found)
        return found

    def status(self, row: int, hypothesis: Hypothesis = NOTHING) -> dict[int, str]:
        """How each NUMA node is held."""
        ground = self.ground(row)
        return zone_status(ground.capacity, holdings(self.holders(row, hypothesis), ground.layout))

    def _used(self, row: int, names: Iterable[str]) -> Amounts:
        nodes = self._nodes
        columns = ((name, nodes.columns.get(name)) for name in sorted(names))
        return {
            name: int(nodes.allocatable[column, row] - nodes.free[column, row]) if column is not None else 0
            for name, column in columns
        }

    # --- many nodes --------------------------------------------------------------------------------------------------

    @property
    def zone_columns(self) -> ZoneColumns:
        """The columns of NUMA nodes, up to date."""
        nodes, log = self._nodes, self._nodes.touched
        changed = log.since(self._zones_at, at_most=max(FEW, len(nodes) // 2)) if self._zones_at >= 0 else None
        self._zones_at = log.end
        rows = list(self._rows) if changed is None else [row for row in changed if row in self._rows]
        self._zones.fit(0, (), self._nodes.alive.shape[0])
        for row in rows:
            node = self.zones(row)
            self._zones.fit(len(node.zones), {name for amounts in node.capacity.values() for name in amounts}, 0)
            self._zones.write(row, node, self.status(row))
        return self._zones


def zones_of(
    ground: Ground, ratio: float, used: Mapping[str, int], holders: Iterable[Holder], free: frozenset[int]
) -> NodeZones:
    """The NUMA nodes of a node.

    Args:
        ground: what is known of it.
        ratio: how many times its cpu it shows.
        used: what is taken of the node in all, by each resource that its NUMA nodes have.
        holders: those among them that were given CPUs or shares of NUMA nodes.
        free: the CPUs that may be given out.
    """
    holders = list(holders)
    shared = dict(used)
    for each in holders:
        subtract_from(shared, {name: amount for name, amount in each.amounts.items() if name in shared})
    layout, capacity = ground.layout, ground.capacity
    charges = [charge(each.held, capacity, layout) for each in (Holder(shared), *holders)]
    own = cpus_by_zone(NO_CPUS.union(*(each.cpus for each in holders)), layout)
    return NodeZones(
        capacity=amplified_capacity(capacity, ratio),
        use=zone_use(total_charges(charges), own, ratio=ratio),
        ratio=ratio,
        layout=layout,
        free_cpus=free,
    )


def _counts_of(layout: CpuLayout, free: frozenset[int]) -> tuple[int, ...]:
    return tuple(len(usable_cpus(layout, free, kind)) for kind in KINDS)


@lru_cache(maxsize=LAYOUTS_MAX)
def _counts_of_idle(layout: CpuLayout, reserved: frozenset[int]) -> tuple[int, ...]:
    """What `Cores._counts` says of all nodes where no pod has CPUs to itself."""
    return (0, *_counts_of(layout, available_cpus(layout, (), reserved=reserved)))


@lru_cache(maxsize=4096)
def _ratio(text: str) -> float | None:
    """The ratio of cpu that an annotation says; None: it cannot be read."""
    ratios = read_ratios({ANNOTATION_AMPLIFICATION_RATIO: text})
    return None if isinstance(ratios, Problem) else ratios.get(CPU, 1.0)
