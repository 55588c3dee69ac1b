"""Plays cluster-watcher: what happens in the simulated store, written into STATE."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from tests.services.worlds.writer.objects import device_of

from berth.bus import Bus
from berth.cluster_watcher.core.nodes import node_of
from berth.cluster_watcher.core.reservations import ReservationItem, reservation_of
from berth.contracts import buckets, kube, state, subjects
from berth.contracts.codec import encode
from berth.rules.pod_reading import PodItem
from berth.rules.reading.pod_groups import pod_group_of
from berth.rules.reading.pods import pod_of
from berth.simcluster import Store
from berth.simcluster.store.collection import Event

_READ = {
    "podgroups": (msgspec.json.Decoder(kube.PodGroup), pod_group_of),
    "pods": (msgspec.json.Decoder(PodItem), pod_of),
    "nodes": (msgspec.json.Decoder(kube.Node), node_of),
    "reservations": (msgspec.json.Decoder(ReservationItem), reservation_of),
}


NONE_HERE = ("elasticquotas", "devices", "podgroups", "poddisruptionbudgets")
"""Kinds of which a real solver has to know that there is nothing here. Plain ones give out cards of `give_cards`."""


def state_message(event: Event) -> tuple[str, bytes | None]:
    """The key and the bytes that STATE has for a change; None and a tombstone for a deletion."""
    plural = event.resource.plural
    decoder, convert = _READ[plural]
    item = decoder.decode(event.obj.raw)
    meta = item.metadata
    key = subjects.key(plural[:-1], *([meta.namespace] if meta.namespace else []), meta.name)
    return key, None if event.kind == "DELETED" else encode(convert(item, event.version))


class Mirror:
    """Writes what happens to pods, nodes and Reservations into STATE, unless it is held back."""

    def __init__(self, bus: Bus, store: Store) -> None:
        self._bus = bus
        self.store = store
        self.owned = bus.owned(buckets.STATE, on_reset=self.relist)
        self.relists = 0
        self.none_of: tuple[str, ...] = ()
        self._cards: dict[str, int] = {}
        self._held: list[Event] | None = None
        store.listen(self._see)

    def give_cards(self, nodes: Mapping[str, int]) -> None:
        """So many healthy cards are on these nodes; their Devices are no objects of the store."""
        self._cards |= nodes
        for node, cards in nodes.items():
            self.owned.put(subjects.named_key("device", node), encode(device_of(node, cards)))

    def hold(self) -> None:
        """STATE stands still from now on."""
        self._held = []

    def release(self) -> None:
        """Write what was held back."""
        held, self._held = self._held or [], None
        for event in held:
            self._see(event)

    def mark(self, *, complete: bool = True) -> None:
        """All kinds are complete through now."""
        for kind in (*_READ, *self.none_of):
            marker = state.Synced(kind=kind, version=self.store.version, complete=complete)
            self.owned.put(subjects.synced_key(kind), encode(marker))

    def relist(self) -> None:
        """STATE was lost, or its tail: everything is written again between two markers."""
        self.relists += 1
        self.mark(complete=False)
        for collection in list(self.store.state.collections.values()):
            if collection.resource.plural in _READ:
                for obj in collection.items.values():
                    self._see(Event(collection.resource, "MODIFIED", obj, None))
        self.give_cards(self._cards)
        self.mark()

    def _see(self, event: Event) -> None:
        if event.resource.plural not in _READ:
            return
        if self._held is not None:
            self._held.append(event)
            return
        key, value = state_message(event)
        if value is None:
            self.owned.delete(key, str(event.version).encode())
        else:
            self.owned.put(key, value)
