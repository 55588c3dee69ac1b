"""What the buckets show: Devices, NodeResourceTopologies, Nodes and Pods of STATE, reports of METRICS, and our own
INVENTORY. Sinks only record and mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.base import Message
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.inventory import NodeInventory
from berth.contracts.network import NetworkLayers, NodeDomains
from berth.contracts.node_report import NodeReport
from berth.contracts.node_runtime import NodeRuntime
from berth.contracts.subjects import named_key, parts, synced_key
from berth.contracts.topology import NodeTopology
from berth.device_inventory.core.network import NAME
from berth.device_inventory.core.topology_object import pinned_pod
from berth.rules.cpus.kubelet import NodePod
from berth.runtime import PublishedView

DEVICE: Final = "device"
NODE: Final = "node"
REPORT: Final = "noderesourcetopology"
TOPOLOGY: Final = "topology"
LAYERS: Final = "network"
DOMAINS: Final = "domains"
_DEVICES: Final = synced_key("devices")
_REPORTS: Final = synced_key("noderesourcetopologies")
_NODES: Final = synced_key("nodes")
KEYS: Final = (f"{DEVICE}.>", f"{NODE}.>", f"{REPORT}.>", _DEVICES, _REPORTS, _NODES)
"""What of STATE is read beside pods."""
POD: Final = "pod"
_PODS: Final = synced_key("pods")
POD_KEYS: Final = (f"{POD}.>", _PODS)
AGENT: Final = "report"
AGENT_KEYS: Final = f"{AGENT}.>"
"""What of METRICS is read: figures change all the time and say nothing here."""
NETWORK: Final = "/network"
"""What is marked when the ClusterNetworkTopology changes: the name of no node."""
_NETWORK: Final = named_key("clusternetworktopology", NAME)
_NETWORKS: Final = synced_key("clusternetworktopologies")
NETWORK_KEYS: Final = ("clusternetworktopology.>", _NETWORKS)
RUNTIME: Final = "runtime"
RUNTIME_KEYS: Final = f"{RUNTIME}.>"


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


Said = TypeVar("Said", NodeReport, NodeRuntime)
Named = TypeVar("Named", state.Device, state.NodeResourceTopology, state.Node)


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
        name = _node_of(entry, AGENT)
        if not name:
            return
        try:
            report = _of_node(entry, name, NodeReport)
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
        """Nothing waits for reports: a node without one is as its objects say."""


class RuntimeView:
    """How the agents of nodes stand with their container runtimes, by node name.

    `sequences`: that of the newest message, which each new one changes. `withdrawn`: nodes whose agent is no plugin.
    """

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.runtimes: dict[str, NodeRuntime] = {}
        self.sequences: dict[str, int] = {}
        self.withdrawn: set[str] = set()
        self.unreadable = 0
        self._mark = mark

    def reset(self) -> None:
        """The bucket begins anew."""
        self.runtimes.clear()
        self.sequences.clear()
        self.withdrawn.clear()

    def apply(self, entry: Entry) -> None:
        """One message. One that cannot be read leaves what was known, which grows old."""
        name = _node_of(entry, RUNTIME)
        if not name:
            return
        try:
            runtime = _of_node(entry, name, NodeRuntime)
        except InvalidMessage:
            self.unreadable += 1
            return
        if runtime is None:
            self.runtimes.pop(name, None)
            self.sequences.pop(name, None)
            self.withdrawn.add(name)
        else:
            self.runtimes[name], self.sequences[name] = runtime, entry.sequence
            self.withdrawn.discard(name)
        self._mark(name)

    def end(self, sequence: int) -> None:
        """Nothing waits for them."""


class PodView:
    """What of the pods of each node concerns its CPUs, by node name. Pods without CPUs of their own are there as well:
    kubelet's checkpoint knows pods by uid alone."""

    def __init__(self, mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        self.pods: dict[str, dict[str, NodePod]] = {}
        self.unreadable = 0
        self._place: dict[str, tuple[str, NodePod]] = {}
        self._is_listed = self._is_at_end = False
        self._mark = mark
        self._mark_all = mark_all

    @property
    def is_complete(self) -> bool:
        """Whether a pod that is not here does not exist."""
        return self._is_listed and self._is_at_end

    def of(self, node: str) -> list[NodePod]:
        """The pods of a node."""
        return list(self.pods.get(node, {}).values())

    def reset(self) -> None:
        """The bucket begins anew."""
        self.pods.clear()
        self._place.clear()
        self._is_listed = self._is_at_end = False

    def apply(self, entry: Entry) -> None:
        """One message. A pod that cannot be read stays what it was."""
        try:
            if entry.key == _PODS:
                self._is_listed = not entry.deleted and decode(entry.value, state.Synced).complete
                self._tell()
                return
            pod = None if entry.deleted else decode(entry.value, state.Pod)
        except InvalidMessage:
            self.unreadable += 1
            return
        after = pinned_pod(pod) if pod is not None else None
        self._put(entry.key, (pod.node, after) if pod is not None and after is not None else None)

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        if not self._is_at_end:
            self._is_at_end = True
            self._tell()

    def _put(self, key: str, after: tuple[str, NodePod] | None) -> None:
        before = self._place.get(key)
        if before == after:
            return
        if before is not None:
            del self._place[key]
            on_node = self.pods[before[0]]
            on_node.pop(key, None)
            if not on_node:
                del self.pods[before[0]]
            self._mark(before[0])
        if after is not None:
            self._place[key] = after
            self.pods.setdefault(after[0], {})[key] = after[1]
            self._mark(after[0])

    def _tell(self) -> None:
        if self.is_complete:
            self._mark_all()


class NetworkView:
    """The one ClusterNetworkTopology that counts, and whether it is known not to be there."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.topology: state.ClusterNetworkTopology | None = None
        self.unreadable = 0
        self._is_listed = self._is_at_end = False
        self._mark = mark

    @property
    def proves_absence(self) -> bool:
        """Whether an object that is not here does not exist."""
        return self._is_listed and self._is_at_end

    @property
    def is_settled(self) -> bool:
        """Whether it is known what there is."""
        return self.topology is not None or self.proves_absence

    def reset(self) -> None:
        """The bucket begins anew."""
        self.topology = None
        self._is_listed = self._is_at_end = False

    def apply(self, entry: Entry) -> None:
        """One message. An object that cannot be read stays what it was."""
        try:
            if entry.key == _NETWORK:
                self.topology = None if entry.deleted else decode(entry.value, state.ClusterNetworkTopology)
            elif entry.key == _NETWORKS:
                self._is_listed = not entry.deleted and decode(entry.value, state.Synced).complete
            else:
                return
        except InvalidMessage:
            self.unreadable += 1
            return
        self._mark(NETWORK)

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        self._is_at_end = True
        self._mark(NETWORK)


class InventoryView(PublishedView[NodeInventory]):
    """INVENTORY as published, with counts of what is in it: the devices of nodes, and beside them their topologies,
    the layers of the network, and where in it they lie."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        super().__init__(NODE, NodeInventory, mark)
        self.topologies: PublishedView[NodeTopology] = PublishedView(TOPOLOGY, NodeTopology, mark)
        self.layers: PublishedView[NetworkLayers] = PublishedView(LAYERS, NetworkLayers, lambda name: mark(NETWORK))
        self.domains: PublishedView[NodeDomains] = PublishedView(DOMAINS, NodeDomains, mark)
        self._beside: dict[str, PublishedView[Any]] = {
            TOPOLOGY: self.topologies,
            LAYERS: self.layers,
            DOMAINS: self.domains,
        }
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
        beside = self._view_beside(entry.key)
        if beside is not None:
            beside.apply(entry)
        else:
            super().apply(entry)

    def wrote(self, key: str, message: Message | None) -> None:
        """See `OwnView`."""
        beside = self._view_beside(key)
        if beside is not None:
            beside.wrote(key, message)
        else:
            super().wrote(key, message)

    def name_of(self, key: str) -> str | None:
        """See `OwnView`."""
        beside = self._view_beside(key)
        if beside is None:
            return super().name_of(key)
        return NETWORK if beside is self.layers else beside.name_of(key)

    def get(self, key: str) -> Any:
        """See `OwnView`."""
        beside = self._view_beside(key)
        return super().get(key) if beside is None else beside.get(key)

    def reset(self) -> None:
        """The bucket begins anew."""
        super().reset()
        for each in self._beside.values():
            each.reset()
        self.devices = Counter(dict.fromkeys(self.devices, 0))  # shown as 0, not as what they were
        self.faulty = 0

    def _view_beside(self, key: str) -> PublishedView[Any] | None:
        return self._beside.get(key.partition(".")[0])


def _node_of(entry: Entry, kind: str) -> str:
    """The node that an entry of this kind is about; empty for other kinds."""
    try:
        found, name = parts(entry.key)
    except ValueError:
        return ""
    return name if found == kind else ""


def _of_node(entry: Entry, name: str, message: type[Said]) -> Said | None:
    """What an agent said of its node; None where it says nothing any more. Raises InvalidMessage."""
    if entry.deleted:
        return None
    found = decode(entry.value, message)
    if found.node != name:
        raise InvalidMessage("node", "is not the name in the key")
    return found
