"""Entries of pods as SLO holds them: by node and uid.

An entry stands once the bucket has shown it. What was only sent may be refused, since another replica is active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from berth.bus.port import Entry
from berth.contracts.base import Message
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.slo import NodePod
from berth.contracts.subjects import parts
from berth.slo_manager.core.evicting.rates import Granted, is_granted
from berth.slo_manager.views.shared import Shared

POD: Final = "pod"
_NONE: Final[Mapping[str, NodePod]] = {}


class PodEntries:
    """See `berth.runtime.OwnView`; names are those of nodes."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.keys: dict[str, str] = {}
        """Node by key, for every key that is there, readable or not."""
        self._pods: dict[str, dict[str, NodePod]] = {}
        self._stands: dict[str, set[str]] = {}
        self._granted: dict[str, dict[tuple[str, str], NodePod]] = {}
        self._shared = Shared()
        self._mark = mark

    @property
    def granted(self) -> Granted:
        """Who leaves, or has left, for a node's sake."""
        return self._granted

    def of(self, node: str) -> Mapping[str, NodePod]:
        """The entries of a node, by uid."""
        return self._pods.get(node, _NONE)

    def standing(self, node: str) -> Iterable[str]:
        """Uids of entries that the bucket has shown as they are."""
        return self._stands.get(node, ())

    def wrote(self, key: str, message: Message | None) -> None:
        """See `OwnView`."""
        _, node, uid = parts(key)
        self._put(key, node, uid, message if isinstance(message, NodePod) else None)

    def get(self, key: str) -> NodePod | None:
        """See `OwnView`."""
        try:
            _, node, uid = parts(key)
        except ValueError:
            return None
        return self._pods.get(node, _NONE).get(uid)

    def name_of(self, key: str) -> str | None:
        """See `OwnView`."""
        return self.keys.get(key)

    def reset(self) -> None:
        """The bucket begins anew."""
        self.keys.clear()
        self._pods.clear()
        self._stands.clear()
        self._granted.clear()

    def apply(self, entry: Entry) -> None:
        """An entry as the bucket shows it; one that cannot be read counts as absent and is written again."""
        try:
            _, node, uid = parts(entry.key)
        except ValueError:
            return
        try:
            shown = None if entry.deleted else self._shared.entry(decode(entry.value, NodePod))
        except InvalidMessage:
            self._put(entry.key, node, uid, None)
            self.keys[entry.key] = node
            self._mark(node)
            return
        before = self._pods.get(node, _NONE).get(uid)
        if shown != before:
            self._put(entry.key, node, uid, shown)
            self._mark(node)
        if shown is not None:
            self._stands.setdefault(node, set()).add(uid)
            if is_granted(shown) and not shown.left:
                self._mark(node)

    def _put(self, key: str, node: str, uid: str, message: NodePod | None) -> None:
        self._note(node, uid, self._pods.get(node, _NONE).get(uid), message)
        stands = self._stands.get(node)
        if stands is not None:
            stands.discard(uid)
        if message is None:
            self.keys.pop(key, None)
            pods = self._pods.get(node)
            if pods is not None:
                pods.pop(uid, None)
                if not pods:
                    del self._pods[node]
                    self._stands.pop(node, None)
        else:
            self.keys[key] = node
            self._pods.setdefault(node, {})[uid] = message

    def _note(self, node: str, uid: str, before: NodePod | None, now: NodePod | None) -> None:
        """Keep who was granted."""
        if before is not None and is_granted(before):
            of_workload = self._granted[before.workload]
            del of_workload[node, uid]
            if not of_workload:
                del self._granted[before.workload]
        if now is not None and is_granted(now):
            self._granted.setdefault(now.workload, {})[node, uid] = now
