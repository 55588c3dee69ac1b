"""What STATE shows: nodes, their NodeSLO objects and CPUs, and one ConfigMap. Sinks only record and mark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.names import LENT_BY_ZONE
from berth.contracts.subjects import namespaced_key, parts, synced_key
from berth.resources.amounts import Amounts
from berth.rules.cpu_normalization import CPU_BASIC_INFO
from berth.rules.cpus.node_topology import zone_amounts
from berth.slo_manager.core.offers.facts import RESOURCES

NODE: Final = "node"
OBJECT: Final = "nodeslo"
TOPOLOGY: Final = "noderesourcetopology"
_NODES_MARKER: Final = synced_key("nodes")
_OBJECTS_MARKER: Final = synced_key("nodeslos")


class StateView:
    """Nodes and NodeSLO objects by name, and the texts of the ConfigMap: None while it does not exist.

    `cpu_info` has what the topology of a node says of its CPUs, as written; a node without it is missing.
    `zones` has cpu and memory of its NUMA nodes, `zones_shown` what the topology shows that they lend.
    """

    def __init__(self, config_map: tuple[str, str], mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        self.nodes: dict[str, state.Node] = {}
        self.objects: dict[str, state.NodeSLO] = {}
        self.cpu_info: dict[str, str] = {}
        self.zones: dict[str, dict[int, Amounts]] = {}
        self.zones_shown: dict[str, dict[int, Amounts]] = {}
        self.texts: dict[str, str] | None = None
        self.unreadable = 0
        self.is_at_end = False
        self._config_key = namespaced_key("configmap", *config_map)
        self._config_marker = synced_key(self._config_key)
        self._complete: set[str] = set()
        self._has_kind = False
        self._mark = mark
        self._mark_all = mark_all

    @property
    def keys(self) -> tuple[str, ...]:
        """What of STATE is read."""
        kinds = (f"{NODE}.>", f"{OBJECT}.>", f"{TOPOLOGY}.>", self._config_key)
        return (*kinds, _NODES_MARKER, _OBJECTS_MARKER, self._config_marker)

    @property
    def is_complete(self) -> bool:
        """Whether a node, or the ConfigMap, that is not here does not exist."""
        return self.is_at_end and {_NODES_MARKER, self._config_marker} <= self._complete

    @property
    def shows_objects(self) -> bool:
        """Whether a NodeSLO object that is not here does not exist, on a cluster that has the kind."""
        return self.is_at_end and _OBJECTS_MARKER in self._complete and self._has_kind

    @property
    def missing(self) -> str:
        """What a complete view still lacks, for people."""
        if not self.is_at_end:
            return "reading the state of the cluster"
        if _NODES_MARKER not in self._complete:
            return "waiting for a complete list of nodes"
        if self._config_marker not in self._complete:
            return "waiting for the ConfigMap: cluster-watcher follows those of its BERTH_CONFIG_MAPS"
        return "complete"

    def reset(self) -> None:
        """The bucket begins anew."""
        self.nodes.clear()
        self.objects.clear()
        self.cpu_info.clear()
        self.zones.clear()
        self.zones_shown.clear()
        self.texts = None
        self.is_at_end = False
        self._complete.clear()

    def apply(self, entry: Entry) -> None:
        """One message of STATE. One that cannot be read leaves what was known."""
        try:
            if entry.key == self._config_key:
                self.texts = None if entry.deleted else decode(entry.value, state.ConfigMap).data
                self._mark_all()
            elif entry.key in (_NODES_MARKER, _OBJECTS_MARKER, self._config_marker):
                self._apply_marker(entry)
            else:
                self._apply_node(entry)
        except (InvalidMessage, ValueError):
            self.unreadable += 1

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        if not self.is_at_end:
            self.is_at_end = True
            self._mark_all()

    def _apply_node(self, entry: Entry) -> None:
        kind, name = parts(entry.key)
        if kind == OBJECT:
            self._apply_object(name, entry)
            return
        if kind == TOPOLOGY:
            self._apply_topology(name, entry)
            return
        if kind != NODE:
            return
        if entry.deleted:
            self.nodes.pop(name, None)
        else:
            node = decode(entry.value, state.Node)
            if node.name != name:
                raise InvalidMessage("name", "is not the name in the key")
            self.nodes[name] = node
        self._mark(name)

    def _apply_object(self, name: str, entry: Entry) -> None:
        if entry.deleted:
            self.objects.pop(name, None)
        else:
            self.objects[name] = decode(entry.value, state.NodeSLO)
        self._mark(name)

    def _apply_topology(self, name: str, entry: Entry) -> None:
        """Of a topology only which CPUs and NUMA nodes there are: it changes with each pod that kubelet gives CPUs."""
        seen = None if entry.deleted else decode(entry.value, state.NodeResourceTopology)
        text = "" if seen is None else seen.annotations.get(CPU_BASIC_INFO, "")
        read = {} if seen is None else zone_amounts(seen)
        zones, shown = _of_each(read, RESOURCES), _of_each(read, LENT_BY_ZONE)
        # That a NUMA node shows what it was asked to show is no news.
        self.zones_shown.pop(name, None)
        if shown:
            self.zones_shown[name] = shown
        if text == self.cpu_info.get(name, "") and zones == self.zones.get(name, {}):
            return
        self.cpu_info.pop(name, None)
        self.zones.pop(name, None)
        if text:
            self.cpu_info[name] = text
        if zones:
            self.zones[name] = zones
        self._mark(name)

    def _apply_marker(self, entry: Entry) -> None:
        before = self.is_complete, self.shows_objects
        marker = None if entry.deleted else decode(entry.value, state.Synced)
        complete = marker is not None and marker.complete
        if entry.key == _OBJECTS_MARKER:
            # A kind that is not installed is complete as well, at no version.
            self._has_kind = marker is not None and marker.version > 0
        (self._complete.add if complete else self._complete.discard)(entry.key)
        after = self.is_complete, self.shows_objects
        if after != before and self.is_complete:
            self._mark_all()


def _of_each(zones: Mapping[int, Amounts], names: Collection[str]) -> dict[int, Amounts]:
    """Of these resources what each NUMA node has, those that have none of them left out."""
    found = {zone: {name: amounts[name] for name in names if name in amounts} for zone, amounts in zones.items()}
    return {zone: amounts for zone, amounts in found.items() if amounts}
