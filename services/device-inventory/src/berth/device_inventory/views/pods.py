"""Pods of STATE, as far as they concern the CPUs of their nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import synced_key
from berth.device_inventory.core.topology_object import pinned_pod
from berth.rules.cpus.kubelet import NodePod

POD: Final = "pod"
_PODS: Final = synced_key("pods")
POD_KEYS: Final = (f"{POD}.>", _PODS)


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
