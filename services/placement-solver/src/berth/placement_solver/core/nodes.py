"""The nodes as columns: what each offers and what is left, one row a node, one array a resource.

A row is made when a node is first named, and stays that node's for as long as the node is there, has devices, or holds
something. After that the row is given to the next new node: both logs name it then, and `renamed` grows. Two logs say
which rows changed: `touched` (capacity) and `reshaped` (labels, taints, being there), so that a reader who keeps
something per row brings just those rows up to date. Who keeps the name of a row, or the row of a name, follows
`renamed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.contracts.inventory import NodeInventory
from berth.contracts.ledger import Grant as Granted
from berth.contracts.slo import NodeOffer
from berth.contracts.state import HostPort, Node
from berth.contracts.topology import NodeTopology
from berth.placement_solver.core.change_log import ChangeLog
from berth.placement_solver.core.cores import Cores
from berth.placement_solver.core.devices import GPU, Cards, Fleet
from berth.placement_solver.core.devices.kubelet_counts import KubeletCounts, has_cards, has_cordoned_cards
from berth.placement_solver.core.devices.node_rules import PLAIN, NodeRules, node_rules
from berth.placement_solver.core.devices.rows import DeviceRows
from berth.placement_solver.core.lending import Lending
from berth.rules.gpu_request import WHOLE_CARDS
from berth.rules.ports import UsedPorts
from berth.rules.records import registry

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

DEVICE_NAMES: Final = registry.GRANTED_RESOURCES
"""Resources given out by minor: the plain sum over a node says nothing about them."""
LENT_NAMES: Final = frozenset(names.LENT_BY_ZONE)
_UNSUMMED: Final = DEVICE_NAMES - WHOLE_CARDS
"""Those without a column. By a vendor's count kubelet may give out cards, so that its sum is kept as well."""

AMOUNT_MAX: Final = 1 << 53
"""Larger amounts count as this much, so that no sum over a node's holders leaves int64. Nothing real comes near."""

CPU, MEMORY, PODS = 0, 1, 2
"""Columns of what every node offers."""


class Nodes:
    """Columns over all nodes known. Amounts are int64; `free` may be negative where a node was over-committed."""

    def __init__(self, capacity: int = 64, *, handed_off: frozenset[str] = frozenset()) -> None:
        """`handed_off`: vendors whose device plugins are told what was chosen, who can be told some choices only."""
        self._handed_off = handed_off
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.states: list[Node | None] = []
        self.inventories: list[NodeInventory | None] = []
        self.topologies: list[NodeTopology | None] = []
        self.devices = DeviceRows(capacity)
        self.device_rules: dict[int, NodeRules] = {}
        """Of rows on which not any devices may be taken."""
        self.ports: list[UsedPorts] = []
        self.columns: dict[str, int] = {names.CPU: CPU, names.MEMORY: MEMORY, names.PODS: PODS}
        self._count_columns: dict[str, int] = {}
        self.allocatable: Ints = np.zeros((8, capacity), np.int64)
        self.free: Ints = np.zeros((8, capacity), np.int64)
        self.alive: Mask = np.zeros(capacity, np.bool_)
        self.marked: Mask = np.zeros(capacity, np.bool_)
        """Tainted or unschedulable: whether a pod may go there depends on the pod."""
        self.unreadable: Ints = np.zeros(capacity, np.int64)
        self.unknown_cards: Ints = np.zeros(capacity, np.int64)
        """How many hold GPUs of which nobody knows the minors: those that are unreadable, and those by number."""
        self.counts = KubeletCounts(self)
        """Where kubelet picks the cards."""
        self.uncounted: Mask = np.zeros(capacity, np.bool_)
        """Has devices that wait to be counted."""
        self.gpu_count: Ints = np.zeros(capacity, np.int64)
        self.has_cards: Mask = np.zeros(capacity, np.bool_)
        self.has_cordoned_cards: Mask = np.zeros(capacity, np.bool_)
        """GPUs are listed, healthy or not, and kubelet counts whole ones."""
        self.most_gpus = 0
        """GPUs of the node that has most of them."""
        self.gpu_counts_version = 0
        """Grows whenever a node comes to have another number of GPUs."""
        self.renamed = 0
        """Grows whenever a row becomes that of another node."""
        self._holders: list[int] = []
        self._spare: dict[int, None] = {}  # rows on which there was nothing left at some time
        self._port_rows: dict[tuple[str, int], Counter[int]] = {}
        self.lending = Lending()
        self.touched = ChangeLog()
        self.reshaped = ChangeLog()
        self.cores = Cores(self, capacity)
        """The CPUs and NUMA nodes."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def fleet(self) -> Fleet:
        """The GPUs as arrays."""
        return self.devices.fleet()

    def cards(self, row: int) -> Cards:
        """The GPUs of one row as plain numbers."""
        return self.devices.cards(row)

    def could_hold(self, name: str, requests: Mapping[str, int]) -> bool:
        """Whether a node has as much cpu and memory in all; of one that is not known nobody can say that it has not."""
        row = self.rows.get(name)
        if row is None:
            return True
        return all(
            requests.get(resource, 0) <= self.allocatable[column, row]
            for resource, column in ((names.CPU, CPU), (names.MEMORY, MEMORY))
        )

    def row(self, name: str) -> int:
        """The row of a node, made when it is new. For somebody who puts something there; others look into `rows`."""
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = self._spare_row(name)
        return row

    def state(self, name: str) -> Node | None:
        """A node as STATE shows it; None when it does not."""
        row = self.rows.get(name)
        return None if row is None else self.states[row]

    def inventory(self, name: str) -> NodeInventory | None:
        """What devices a node has; None when nobody has said so."""
        row = self.rows.get(name)
        return None if row is None else self.inventories[row]

    def _spare_row(self, name: str) -> int:
        while self._spare:
            row = next(iter(self._spare))
            del self._spare[row]
            if self._is_spare(row):
                del self.rows[self.names[row]]
                self.names[row] = name
                self.devices.clear(row)
                self.counts.clear(row)
                self.device_rules.pop(row, None)
                self.cores.forget(row)
                self.touched.add(row)
                self.reshaped.add(row)
                self.renamed += 1
                return row
        row = len(self.names)
        self.names.append(name)
        self.states.append(None)
        self.inventories.append(None)
        self.topologies.append(None)
        self.devices.append()
        self.ports.append(UsedPorts())
        self._holders.append(0)
        if row >= self.alive.shape[0]:
            self._widen(2 * row)
        return row

    def _is_spare(self, row: int) -> bool:
        return (
            self._holders[row] == 0
            and self.states[row] is None
            and self.inventories[row] is None
            and not self.uncounted[row]
            and self.cores.is_spare(row)
        )

    def column(self, resource: str) -> int:
        """The column of a resource, made when it is new."""
        columns = self._count_columns if resource in WHOLE_CARDS else self.columns
        column = columns.get(resource)
        if column is None:
            column = columns[resource] = len(self.columns) + len(self._count_columns)
            if column >= self.free.shape[0]:
                self._heighten(2 * column)
        return column

    def columns_on(self, row: int) -> dict[str, int]:
        """The columns of whatever is given out as a sum on this node: vendors' counts only where kubelet gives them."""
        counts = self._count_columns.items()
        return self.columns | {name: column for name, column in counts if self.counts.shows(name, row)}

    def see_node(self, name: str, node: Node | None) -> bool:
        """Take in a node, or with None its deletion; whether it may have more capacity, or other capacity, than
        before."""
        node = self.lending.see_node(name, node)
        if node is None and name not in self.rows:
            return False
        grown = self._see(name, node)
        return self._see_lent_zones(name) or grown

    def see_offer(self, name: str, offer: NodeOffer | None) -> bool:
        """Take in what a node lends, None: nobody says; whether it may have more capacity than before."""
        node = self.lending.see_offer(name, offer)
        grown = node is not None and node != self.state(name) and self._see(name, node)
        return self._see_lent_zones(name) or grown

    def _see_lent_zones(self, name: str) -> bool:
        """What its NUMA nodes lend may be another amount now; whether any of it is more."""
        said, row = self.lending.topologies.get(name), self.rows.get(name)
        if row is None or said is None or not any(LENT_NAMES & each.amounts.keys() for each in said.zones):
            return False
        counted, before = self.lending.topology(name), self.topologies[row]
        if counted is None or counted == before:
            return False
        self.topologies[row] = counted
        self.cores.see(row, counted, is_uncounted=bool(self.cores.uncounted[row]))
        former = {} if before is None else {each.zone: each.amounts for each in before.zones}
        return any(
            amount > former.get(each.zone, {}).get(resource, 0)
            for each in counted.zones
            for resource, amount in each.amounts.items()
        )

    @property
    def offers(self) -> Mapping[str, NodeOffer]:
        """What nodes lend, by name."""
        return self.lending.offers

    def _see(self, name: str, node: Node | None) -> bool:
        row = self.row(name)
        before, self.states[row] = self.states[row], node
        alive = node is not None and not node.deleting
        offered = dict(node.allocatable) if node is not None and alive else {}
        columns = {self.column(resource): amount for resource, amount in offered.items() if resource not in _UNSUMMED}
        may_go_otherwise = self.counts.see(row, offered)
        target = np.zeros(self.free.shape[0], np.int64)
        for column, amount in columns.items():
            target[column] = min(amount, AMOUNT_MAX)
        grown = may_go_otherwise or bool((target > self.allocatable[:, row]).any())
        self.free[:, row] += target - self.allocatable[:, row]
        self.allocatable[:, row] = target
        self.touched.add(row)
        self.marked[row] = node is not None and bool(node.taints or node.unschedulable)
        shape = _shape(node)
        if alive != bool(self.alive[row]) or shape != _shape(before):
            self.alive[row] = alive
            self.reshaped.add(row)
            self.cores.reshaped(row, node)
            self._see_rules(row)
            grown = alive
        if self._is_spare(row):
            self._spare[row] = None
        return grown

    def see_inventory(self, name: str, inventory: NodeInventory | None, *, is_uncounted: bool = False) -> None:
        """Take in what devices a node has; who holds them stays as it is.

        `is_uncounted`: they wait to be counted; it goes on being as much of a node for GPUs as it was.
        """
        if inventory is None and not is_uncounted and name not in self.rows:
            return
        row = self.row(name)
        self.inventories[row] = inventory
        self.uncounted[row] = is_uncounted
        self.devices.see(row, inventory)
        self._see_rules(row)
        self.has_cards[row] = has_cards(inventory)
        self.has_cordoned_cards[row] = has_cordoned_cards(inventory)
        if not is_uncounted:
            count = sum(1 for slot in self.devices.slots[GPU.name][row] if any(slot.total))
            if count != self.gpu_count[row]:
                before, self.gpu_count[row] = int(self.gpu_count[row]), count
                self.gpu_counts_version += 1
                if count > self.most_gpus or before == self.most_gpus:
                    self.most_gpus = int(self.gpu_count.max())
        self.touched.add(row)
        if self._is_spare(row):
            self._spare[row] = None

    def _see_rules(self, row: int) -> None:
        rules = node_rules(self.states[row], self.inventories[row], self._handed_off)
        if rules != self.device_rules.get(row, PLAIN):
            self.devices.versions[row] += 1
            if rules == PLAIN:
                del self.device_rules[row]
            else:
                self.device_rules[row] = rules

    def topology(self, name: str) -> NodeTopology | None:
        """The CPUs and NUMA nodes of a node as INVENTORY says, None if it does not; `topologies` are as they count."""
        return self.lending.topologies.get(name)

    def see_topology(self, name: str, topology: NodeTopology | None, *, is_uncounted: bool = False) -> None:
        """Take in where the CPUs of a node lie; who holds them stays as it is. `is_uncounted`: that waits to be read
        off its NodeResourceTopology."""
        if topology is None and not is_uncounted and name not in self.rows:
            return
        row = self.row(name)
        self.topologies[row] = counted = self.lending.see_topology(name, topology)
        self.cores.see(row, counted, is_uncounted=is_uncounted)
        if self._is_spare(row):
            self._spare[row] = None

    def take(self, row: int, amounts: Mapping[str, int], sign: int, slots: int = 1) -> None:
        """Charge (sign 1) or give back (-1) plain amounts and pod slots of one holder.

        Whatever a holder takes of the node, this is called for it; the row stays that of the node until it is given
        back.
        """
        for resource, amount in amounts.items():
            if amount and resource not in _UNSUMMED and resource != names.PODS:
                self.free[self.column(resource), row] -= sign * min(amount, AMOUNT_MAX)
        self.free[PODS, row] -= sign * slots
        self.touched.add(row)
        self._holders[row] += sign
        if sign < 0 and self._is_spare(row):
            self._spare[row] = None

    def take_devices(self, row: int, grants: Iterable[Granted], sign: int) -> None:
        """Charge or give back devices."""
        if self.devices.take(row, grants, sign):
            self.touched.add(row)

    def take_ports(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        """Charge or give back host ports."""
        for port in ports:
            slot = (port.protocol or "TCP", port.port)
            rows = self._port_rows.setdefault(slot, Counter())
            rows[row] += sign
            if sign > 0:
                self.ports[row].add(port)
            else:
                self.ports[row].remove(port)
                if rows[row] <= 0:
                    del rows[row]
                if not rows:
                    del self._port_rows[slot]

    def rows_with_ports(self, wanted: Iterable[HostPort]) -> set[int]:
        """Rows on which one of these ports is taken, at whatever address."""
        return {row for port in wanted for row in self._port_rows.get((port.protocol or "TCP", port.port), ())}

    def mark_unread(self, row: int, sign: int) -> None:
        """Count a holder of devices whose minors nobody knows."""
        self.unreadable[row] += sign
        self.mark_numbered(row, sign)

    def mark_numbered(self, row: int, sign: int) -> None:
        """Count a holder of GPUs whose minors nobody knows."""
        self.unknown_cards[row] += sign
        self.touched.add(row)

    def _widen(self, capacity: int) -> None:
        grow = capacity - self.alive.shape[0]
        self.allocatable = np.pad(self.allocatable, ((0, 0), (0, grow)))
        self.free = np.pad(self.free, ((0, 0), (0, grow)))
        self.alive = np.pad(self.alive, (0, grow))
        self.marked = np.pad(self.marked, (0, grow))
        self.unreadable = np.pad(self.unreadable, (0, grow))
        self.unknown_cards = np.pad(self.unknown_cards, (0, grow))
        self.uncounted = np.pad(self.uncounted, (0, grow))
        self.gpu_count = np.pad(self.gpu_count, (0, grow))
        self.has_cards = np.pad(self.has_cards, (0, grow))
        self.has_cordoned_cards = np.pad(self.has_cordoned_cards, (0, grow))
        self.devices.widen(capacity)
        self.cores.widen(capacity)

    def _heighten(self, columns: int) -> None:
        grow = columns - self.free.shape[0]
        self.allocatable = np.pad(self.allocatable, ((0, grow), (0, 0)))
        self.free = np.pad(self.free, ((0, grow), (0, 0)))


def _shape(node: Node | None) -> object:
    if node is None:
        return None
    ratio = node.annotations.get(names.ANNOTATION_AMPLIFICATION_RATIO)
    return (node.labels, node.taints, node.unschedulable, node.deleting, ratio)
