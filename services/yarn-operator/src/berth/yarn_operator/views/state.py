"""Nodes and pods of STATE, as far as they concern YARN's part."""

from __future__ import annotations

from typing import Final

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import parts, synced_key
from berth.resources.amounts import Amounts, add_into
from berth.yarn_operator.core.pods import NodeManager, Part, part_of

_NODES: Final = synced_key("nodes")
_PODS: Final = synced_key("pods")
STATE_KEYS: Final = ("node.>", "pod.>", _NODES, _PODS)


class StateView:
    """Nodes by name, and the pods on them."""

    def __init__(self) -> None:
        self.nodes: dict[str, state.Node] = {}
        self.unreadable = 0
        self._pods: dict[str, Part] = {}
        self._on: dict[str, dict[str, Part]] = {}
        self._listed: set[str] = set()
        self._is_at_end = False

    @property
    def is_complete(self) -> bool:
        """Whether a node or pod that is not here does not exist."""
        return self._is_at_end and {_NODES, _PODS} <= self._listed

    def held(self, node: str) -> Amounts:
        """What the pods of a node have asked for of what it lends."""
        total: Amounts = {}
        for part in self._on.get(node, {}).values():
            add_into(total, part.held)
        return total

    def manager(self, node: str) -> NodeManager | None:
        """The NodeManager of a node; of several that of the first pod by its name."""
        managers = [(key, part.manager) for key, part in self._on.get(node, {}).items() if part.manager]
        return min(managers)[1] if managers else None

    def reset(self) -> None:
        """The bucket begins anew."""
        self.nodes.clear()
        self._pods.clear()
        self._on.clear()
        self._listed.clear()
        self._is_at_end = False

    def apply(self, entry: Entry) -> None:
        """One message. What cannot be read stays what it was."""
        try:
            if entry.key in (_NODES, _PODS):
                is_listed = not entry.deleted and decode(entry.value, state.Synced).complete
                (self._listed.add if is_listed else self._listed.discard)(entry.key)
            elif entry.key.startswith("pod."):
                self._put_pod(entry.key, None if entry.deleted else part_of(decode(entry.value, state.Pod)))
            elif entry.deleted:
                self.nodes.pop(parts(entry.key)[1], None)
            else:
                node = decode(entry.value, state.Node)
                self.nodes[node.name] = node
        except (InvalidMessage, ValueError):
            self.unreadable += 1

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        self._is_at_end = True

    def _put_pod(self, key: str, part: Part | None) -> None:
        before = self._pods.pop(key, None)
        if before is not None:
            pods = self._on[before.node]
            del pods[key]
            if not pods:
                del self._on[before.node]
        if part is not None:
            self._pods[key] = part
            self._on.setdefault(part.node, {})[key] = part
