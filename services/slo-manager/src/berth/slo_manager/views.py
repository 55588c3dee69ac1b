"""What the buckets show: nodes and one ConfigMap of STATE, and our own SLO. Sinks only record and mark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.slo import NodeSLO
from berth.contracts.subjects import named_key, namespaced_key, parts, synced_key

NODE: Final = "node"
_NODES_MARKER: Final = synced_key("nodes")


class StateView:
    """Nodes by name, and the texts of the ConfigMap: None while it does not exist."""

    def __init__(self, config_map: tuple[str, str], mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        self.nodes: dict[str, state.Node] = {}
        self.texts: dict[str, str] | None = None
        self.unreadable = 0
        self.is_at_end = False
        self._config_key = namespaced_key("configmap", *config_map)
        self._config_marker = synced_key(self._config_key)
        self._complete: set[str] = set()
        self._mark = mark
        self._mark_all = mark_all

    @property
    def keys(self) -> tuple[str, ...]:
        """What of STATE is read."""
        return (f"{NODE}.>", self._config_key, _NODES_MARKER, self._config_marker)

    @property
    def is_complete(self) -> bool:
        """Whether a node, or the ConfigMap, that is not here does not exist."""
        return self.is_at_end and self._complete == {_NODES_MARKER, self._config_marker}

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
        self.texts = None
        self.is_at_end = False
        self._complete.clear()

    def apply(self, entry: Entry) -> None:
        """One message of STATE. One that cannot be read leaves what was known."""
        try:
            if entry.key == self._config_key:
                self.texts = None if entry.deleted else decode(entry.value, state.ConfigMap).data
                self._mark_all()
            elif entry.key in (_NODES_MARKER, self._config_marker):
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

    def _apply_marker(self, entry: Entry) -> None:
        was_complete = self.is_complete
        complete = not entry.deleted and decode(entry.value, state.Synced).complete
        (self._complete.add if complete else self._complete.discard)(entry.key)
        if self.is_complete and not was_complete:
            self._mark_all()


class Shelf:
    """SLO as published, by us or by the other replica.

    `put` notes what we are about to write; when the bucket then shows something else, the node is marked.
    """

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.strategies: dict[str, NodeSLO] = {}
        self.names: dict[str, str] = {}
        """Node name by key, for every key that is there, readable or not."""
        self._mark = mark

    def put(self, name: str, strategy: NodeSLO | None) -> None:
        """What the key of this node holds now, or will in a moment; None: nothing."""
        key = named_key(NODE, name)
        if strategy is None:
            self.strategies.pop(name, None)
            self.names.pop(key, None)
        else:
            self.strategies[name] = strategy
            self.names[key] = name

    def reset(self) -> None:
        """The bucket begins anew."""
        self.strategies.clear()
        self.names.clear()

    def apply(self, entry: Entry) -> None:
        """A published strategy; one that cannot be read counts as absent and is written again."""
        try:
            _, name = parts(entry.key)
        except ValueError:
            return
        try:
            shown = None if entry.deleted else decode(entry.value, NodeSLO)
        except InvalidMessage:
            self.put(name, None)
            self.names[entry.key] = name
            self._mark(name)
            return
        if shown != self.strategies.get(name):
            self.put(name, shown)
            self._mark(name)

    def end(self, sequence: int) -> None:
        """Nothing to do at the end."""
