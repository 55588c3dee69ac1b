"""What the buckets show: Devices, NodeResourceTopologies and Nodes of STATE, and our own INVENTORY. Sinks only record
and mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.base import Message
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.inventory import NodeInventory
from berth.contracts.subjects import parts, synced_key
from berth.contracts.topology import NodeTopology
from berth.runtime import PublishedView

DEVICE: Final = "device"
NODE: Final = "node"
REPORT: Final = "noderesourcetopology"
TOPOLOGY: Final = "topology"
_DEVICES: Final = synced_key("devices")
_REPORTS: Final = synced_key("noderesourcetopologies")
KEYS: Final = (f"{DEVICE}.>", f"{NODE}.>", f"{REPORT}.>", _DEVICES, _REPORTS)
"""What of STATE is read: pods, which are most of it, say nothing about devices."""


class StateView:
    """Devices, NodeResourceTopologies and nodes by node name."""

    def __init__(self, mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        self.devices: dict[str, state.Device] = {}
        self.reports: dict[str, state.NodeResourceTopology] = {}
        self.nodes: dict[str, state.Node] = {}
        self.unreadable = 0
        self.is_at_end = False
        self._complete: set[str] = set()
        self._mark = mark
        self._mark_all = mark_all

    @property
    def proves_absence(self) -> bool:
        """Whether a Device that is not here does not exist: all were listed, and all of that was read."""
        return self.is_at_end and _DEVICES in self._complete

    @property
    def proves_absence_of_report(self) -> bool:
        """The same of NodeResourceTopologies."""
        return self.is_at_end and _REPORTS in self._complete

    @property
    def missing(self) -> str:
        """What a complete view still lacks, for people."""
        if not self.is_at_end:
            return "reading the state of the cluster"
        return "complete" if _DEVICES in self._complete else "waiting for a complete list of devices"

    def reset(self) -> None:
        """The bucket begins anew."""
        self.devices.clear()
        self.reports.clear()
        self.nodes.clear()
        self.is_at_end = False
        self._complete.clear()

    def apply(self, entry: Entry) -> None:
        """One message of STATE."""
        kind = entry.key.partition(".")[0]
        if kind in (DEVICE, NODE, REPORT):
            self._apply(kind, entry)
        elif entry.key in (_DEVICES, _REPORTS):
            self._apply_marker(entry)

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        if not self.is_at_end:
            self.is_at_end = True
            self._mark_all()

    def _apply(self, kind: str, entry: Entry) -> None:
        """A message that cannot be read leaves what was known: no answer is better than withdrawing devices in use."""
        try:
            _, name = parts(entry.key)
            if entry.deleted:
                shown = {DEVICE: self.devices, REPORT: self.reports, NODE: self.nodes}[kind]
                shown.pop(name, None)  # type: ignore[attr-defined]
            elif kind == DEVICE:
                self.devices[name] = _named(name, decode(entry.value, state.Device))
            elif kind == REPORT:
                self.reports[name] = _named(name, decode(entry.value, state.NodeResourceTopology))
            else:
                self.nodes[name] = _named(name, decode(entry.value, state.Node))
        except (InvalidMessage, ValueError):
            self.unreadable += 1
            return
        self._mark(name)

    def _apply_marker(self, entry: Entry) -> None:
        try:
            complete = not entry.deleted and decode(entry.value, state.Synced).complete
        except InvalidMessage:
            self.unreadable += 1
            return
        became_complete = complete and entry.key not in self._complete
        (self._complete.add if complete else self._complete.discard)(entry.key)
        if became_complete:
            self._mark_all()


Named = TypeVar("Named", state.Device, state.NodeResourceTopology, state.Node)


def _named(name: str, message: Named) -> Named:
    if message.name != name:
        raise InvalidMessage("name", "is not the name in the key")
    return message


class InventoryView(PublishedView[NodeInventory]):
    """INVENTORY as published, with counts of what is in it: the devices of nodes, and beside them their topologies."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        super().__init__(NODE, NodeInventory, mark)
        self.topologies: PublishedView[NodeTopology] = PublishedView(TOPOLOGY, NodeTopology, mark)
        self.devices: Counter[tuple[str, bool]] = Counter()
        """How many devices there are by kind and health."""
        self.faulty = 0
        """How many nodes have problems in their Device."""

    def put(self, name: str, message: NodeInventory | None) -> None:
        """See `PublishedView`."""
        for inventory, sign in ((self.messages.get(name), -1), (message, 1)):
            if inventory is not None:
                for slot in inventory.devices:
                    self.devices[slot.kind, slot.healthy] += sign
                self.faulty += sign * bool(inventory.problems)
        super().put(name, message)

    @property
    def faulty_topologies(self) -> int:
        """How many nodes have problems in their NodeResourceTopology."""
        return sum(1 for each in self.topologies.messages.values() if each.problems)

    def apply(self, entry: Entry) -> None:
        """See `PublishedView`."""
        if _is_topology(entry.key):
            self.topologies.apply(entry)
        else:
            super().apply(entry)

    def wrote(self, key: str, message: Message | None) -> None:
        """See `OwnView`."""
        if _is_topology(key):
            self.topologies.wrote(key, message)
        else:
            super().wrote(key, message)

    def name_of(self, key: str) -> str | None:
        """See `OwnView`."""
        return self.topologies.name_of(key) if _is_topology(key) else super().name_of(key)

    def reset(self) -> None:
        """The bucket begins anew."""
        super().reset()
        self.topologies.reset()
        self.devices = Counter(dict.fromkeys(self.devices, 0))  # shown as 0, not as what they were
        self.faulty = 0


def _is_topology(key: str) -> bool:
    return key.partition(".")[0] == TOPOLOGY
