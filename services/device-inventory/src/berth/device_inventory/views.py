"""What the buckets show: Devices and Nodes of STATE, reports of METRICS, and our own INVENTORY. Sinks only record and
mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.inventory import NodeInventory
from berth.contracts.node_report import NodeReport
from berth.contracts.subjects import parts, synced_key
from berth.runtime import PublishedView

DEVICE: Final = "device"
NODE: Final = "node"
AGENT: Final = "report"
AGENT_KEYS: Final = f"{AGENT}.>"
"""What of METRICS is read: figures, which change all the time, say nothing about devices."""
_DEVICES: Final = synced_key("devices")
_NODES: Final = synced_key("nodes")
KEYS: Final = (f"{DEVICE}.>", f"{NODE}.>", _DEVICES, _NODES)
"""What of STATE is read: pods, which are most of it, say nothing about devices."""


class StateView:
    """Devices and nodes by node name."""

    def __init__(self, mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        self.devices: dict[str, state.Device] = {}
        self.nodes: dict[str, state.Node] = {}
        self.unreadable = 0
        self.is_at_end = False
        self._complete: set[str] = set()
        self._has_kind = False
        self._mark = mark
        self._mark_all = mark_all

    @property
    def proves_absence(self) -> bool:
        """Whether a Device that is not here does not exist: all were listed, and all of that was read."""
        return self.is_at_end and _DEVICES in self._complete

    @property
    def takes_objects(self) -> bool:
        """Whether the cluster has the kind Device, and all of them are shown."""
        return self.proves_absence and self._has_kind

    @property
    def proves_nodes_absence(self) -> bool:
        """Whether a node that is not here does not exist."""
        return self.is_at_end and _NODES in self._complete

    @property
    def missing(self) -> str:
        """What a complete view still lacks, for people."""
        if not self.is_at_end:
            return "reading the state of the cluster"
        return "complete" if self.proves_absence else "waiting for a complete list of devices"

    def reset(self) -> None:
        """The bucket begins anew."""
        self.devices.clear()
        self.nodes.clear()
        self.is_at_end = False
        self._complete.clear()

    def apply(self, entry: Entry) -> None:
        """One message of STATE."""
        kind = entry.key.partition(".")[0]
        if kind in (DEVICE, NODE):
            self._apply(kind, entry)
        elif entry.key in (_DEVICES, _NODES):
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
                (self.devices if kind == DEVICE else self.nodes).pop(name, None)
            elif kind == DEVICE:
                self.devices[name] = _named(name, decode(entry.value, state.Device))
            else:
                self.nodes[name] = _named(name, decode(entry.value, state.Node))
        except (InvalidMessage, ValueError):
            self.unreadable += 1
            return
        self._mark(name)

    def _apply_marker(self, entry: Entry) -> None:
        try:
            marker = None if entry.deleted else decode(entry.value, state.Synced)
        except InvalidMessage:
            self.unreadable += 1
            return
        complete = marker is not None and marker.complete
        became_complete = complete and entry.key not in self._complete
        (self._complete.add if complete else self._complete.discard)(entry.key)
        if entry.key == _DEVICES:
            # A kind that is not installed is complete as well, at no version.
            has_kind = marker is not None and marker.version > 0
            became_complete |= has_kind and not self._has_kind
            self._has_kind = has_kind
        if became_complete:
            self._mark_all()


Named = TypeVar("Named", state.Device, state.Node)


def _named(name: str, message: Named) -> Named:
    if message.name != name:
        raise InvalidMessage("name", "is not the name in the key")
    return message


class AgentView:
    """What the agents of nodes report, by node name.

    `withdrawn`: nodes whose agent said that it reports no longer. A node that is in neither says nothing: its report
    may have been lost with the bucket.
    """

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.reports: dict[str, NodeReport] = {}
        self.withdrawn: set[str] = set()
        self.unreadable = 0
        self._mark = mark

    def reset(self) -> None:
        """The bucket begins anew."""
        self.reports.clear()
        self.withdrawn.clear()

    def apply(self, entry: Entry) -> None:
        """One report. One that cannot be read leaves what was known."""
        try:
            kind, name = parts(entry.key)
        except ValueError:
            return
        if kind != AGENT:
            return
        try:
            report = None if entry.deleted else decode(entry.value, NodeReport)
            if report is not None and report.node != name:
                raise InvalidMessage("node", "is not the name in the key")
        except InvalidMessage:
            self.unreadable += 1
            return
        if report is None:
            self.reports.pop(name, None)
            self.withdrawn.add(name)
        else:
            self.reports[name] = report
            self.withdrawn.discard(name)
        self._mark(name)

    def end(self, sequence: int) -> None:
        """Nothing waits for reports: a node without one is as its Device object says."""


class InventoryView(PublishedView[NodeInventory]):
    """INVENTORY as published, with counts of what is in it."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        super().__init__(NODE, NodeInventory, mark)
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

    def reset(self) -> None:
        """The bucket begins anew."""
        super().reset()
        self.devices = Counter(dict.fromkeys(self.devices, 0))  # shown as 0, not as what they were
        self.faulty = 0
