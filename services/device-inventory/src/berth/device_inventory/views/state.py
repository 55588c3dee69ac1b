"""What STATE shows: Devices, NodeResourceTopologies and nodes. Sinks only record and mark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import parts, synced_key

DEVICE: Final = "device"
NODE: Final = "node"
REPORT: Final = "noderesourcetopology"
_DEVICES: Final = synced_key("devices")
_REPORTS: Final = synced_key("noderesourcetopologies")
_NODES: Final = synced_key("nodes")
KEYS: Final = (f"{DEVICE}.>", f"{NODE}.>", f"{REPORT}.>", _DEVICES, _REPORTS, _NODES)
"""What of STATE is read beside pods and the network."""
Named = TypeVar("Named", state.Device, state.NodeResourceTopology, state.Node)


class StateView:
    """Devices, NodeResourceTopologies and nodes by node name."""

    def __init__(self, mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        self.devices: dict[str, state.Device] = {}
        self.reports: dict[str, state.NodeResourceTopology] = {}
        self.nodes: dict[str, state.Node] = {}
        self.unreadable = 0
        self.is_at_end = False
        self._complete: set[str] = set()
        self._installed: set[str] = set()
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
    def proves_absence_of_node(self) -> bool:
        """The same of nodes."""
        return self.is_at_end and _NODES in self._complete

    @property
    def takes_devices(self) -> bool:
        """Whether the cluster has the kind Device, and all of them are shown."""
        return self.proves_absence and _DEVICES in self._installed

    @property
    def takes_topologies(self) -> bool:
        """The same of NodeResourceTopologies."""
        return self.proves_absence_of_report and _REPORTS in self._installed

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
        elif entry.key in (_DEVICES, _REPORTS, _NODES):
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
            marker = None if entry.deleted else decode(entry.value, state.Synced)
        except InvalidMessage:
            self.unreadable += 1
            return
        complete = marker is not None and marker.complete
        # A kind that is not installed is complete as well, at no version.
        installed = marker is not None and marker.version > 0
        is_news = (complete and entry.key not in self._complete) or (installed and entry.key not in self._installed)
        (self._complete.add if complete else self._complete.discard)(entry.key)
        (self._installed.add if installed else self._installed.discard)(entry.key)
        if is_news:
            self._mark_all()


def _named(name: str, message: Named) -> Named:
    if message.name != name:
        raise InvalidMessage("name", "is not the name in the key")
    return message
