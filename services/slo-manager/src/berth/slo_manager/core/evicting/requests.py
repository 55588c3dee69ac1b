"""When cluster-writer is asked to evict a pod: once the grant stands in SLO, and again while nothing of it shows."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts.command import EvictionNote, EvictPod
from berth.contracts.slo import NodePod, PodEviction
from berth.rules.node_evictions.notes import REASON
from berth.slo_manager.core.evicting.tenants import Tenant

AGAIN_S: Final = 30.0
USEFUL_S: Final = 60.0
"""A request that is carried out later than this serves nobody any more."""


class _Sent(NamedTuple):
    revision: int
    again_at: float


class EvictionRequests:
    """What was sent, by node and uid."""

    def __init__(self) -> None:
        self._sent: dict[str, dict[str, _Sent]] = {}

    @property
    def open(self) -> int:
        """How many pods were asked to leave and have not left."""
        return sum(map(len, self._sent.values()))

    def clear(self) -> None:
        """What was asked for is not known any more."""
        self._sent.clear()

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._sent.pop(node, None)

    def due(self, now: float) -> list[str]:
        """Nodes of which somebody is to be asked again. Monotonic seconds."""
        return [node for node, sent in self._sent.items() if any(now >= each.again_at for each in sent.values())]

    def of(
        self, node: str, granted: dict[str, tuple[NodePod, PodEviction]], tenants: dict[str, Tenant], now: float
    ) -> list[tuple[NodePod, PodEviction]]:
        """Whom to ask for now. `granted` are the entries that stand in SLO, and are to be carried out."""
        before, kept, found = self._sent.get(node, {}), {}, []
        for uid, (entry, eviction) in granted.items():
            tenant, sent = tenants.get(uid), before.get(uid)
            if tenant is None or tenant.pod.deleting:
                continue
            if sent is None or sent.revision != eviction.revision or now >= sent.again_at:
                sent = _Sent(eviction.revision, now + AGAIN_S)
                found.append((entry, eviction))
            kept[uid] = sent
        if kept:
            self._sent[node] = kept
        else:
            self._sent.pop(node, None)
        return found


def command_of(entry: NodePod, eviction: PodEviction, now_s: float) -> EvictPod:
    """The request."""
    return EvictPod(
        namespace=entry.namespace,
        name=entry.name,
        uid=entry.uid,
        reason=REASON,
        node=entry.node,
        revision=eviction.revision,
        until=now_s + USEFUL_S,
        note=EvictionNote(
            need=eviction.need,
            feature=eviction.feature,
            accumulator=eviction.accumulator,
            release=eviction.release,
            counts=eviction.counts,
            message=eviction.message,
        ),
    )
