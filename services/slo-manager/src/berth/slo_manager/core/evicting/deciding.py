"""The entries of a node's pods, and the requests that follow from the answers in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.command import EvictPod
from berth.contracts.node_pressure import EvictionAsk, NodePressure
from berth.contracts.slo import NodePod, PodEviction
from berth.rules.node_evictions.thresholds import Thresholds
from berth.slo_manager.core.evicting.answering import Site, entries_of
from berth.slo_manager.core.evicting.rates import PERIOD_S, Granted, is_granted
from berth.slo_manager.core.evicting.requests import EvictionRequests, command_of
from berth.slo_manager.core.evicting.tenants import Tenant

STALE_S: Final = 60.0
"""What an agent asked for so long ago is nobody's need any more."""


class Wanted(NamedTuple):
    """What SLO is to say otherwise (None: nothing any more), by uid, and what is asked of cluster-writer."""

    entries: dict[str, NodePod | None]
    commands: list[EvictPod]


class Seen(NamedTuple):
    """What is seen of a node. `pressure`: what its agent asks, None: nothing; `stored_s` when that reached the bus.

    `stands`: uids whose entries SLO is known to hold as they are published.
    """

    name: str
    tenants: Mapping[str, Tenant]
    published: Mapping[str, NodePod]
    stands: Iterable[str]
    pressure: NodePressure | None
    stored_s: float
    thresholds: Thresholds | None


class Evicting:
    """Decides about the pods of one node at a time."""

    def __init__(self, per_hour: int) -> None:
        self._per_hour = per_hour
        self._requests = EvictionRequests()
        self._expires: dict[str, float] = {}
        """By node: when the first of its records has served, unix seconds."""

    @property
    def open(self) -> int:
        """How many pods were asked to leave and have not left."""
        return self._requests.open

    def clear(self) -> None:
        """What was asked for is not known any more."""
        self._requests.clear()
        self._expires.clear()

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._requests.forget(name)
        self._expires.pop(name, None)

    def due(self, monotonic: float, now_s: float) -> list[str]:
        """Nodes to be looked at again."""
        expired = [name for name, expires in self._expires.items() if now_s >= expires]
        return [*self._requests.due(monotonic), *expired]

    def decide(self, seen: Seen, evicted: Granted, *, monotonic: float, now_s: float, now_ms: int) -> Wanted:
        """What is to be said and asked for."""
        site = Site(seen.tenants, seen.published, _asks(seen, now_s), seen.thresholds, evicted, self._per_hour)
        entries = entries_of(site, now_s, now_ms)
        stands = set(seen.stands)
        granted: dict[str, tuple[NodePod, PodEviction]] = {
            uid: (entry, entry.eviction)
            for uid, entry in entries.items()
            if uid in stands and is_granted(entry) and entry.eviction == _eviction(seen.published.get(uid))
            if entry.eviction is not None
        }
        sent = self._requests.of(seen.name, granted, dict(seen.tenants), monotonic)
        records = [entry.left for entry in entries.values() if entry.left]
        self._expires.pop(seen.name, None)
        if records:
            self._expires[seen.name] = min(records) + PERIOD_S
        changed: dict[str, NodePod | None] = {}
        for uid, entry in entries.items():
            before = seen.published.get(uid)
            if entry is not before and entry != before:
                changed[uid] = entry
        changed |= dict.fromkeys(seen.published.keys() - entries.keys())
        return Wanted(changed, [command_of(entry, eviction, now_s) for entry, eviction in sent])


def _eviction(entry: NodePod | None) -> PodEviction | None:
    return None if entry is None else entry.eviction


def _asks(seen: Seen, now_s: float) -> list[EvictionAsk]:
    pressure = seen.pressure
    if pressure is None or (seen.stored_s and now_s - seen.stored_s > STALE_S):
        return []
    return pressure.asks
