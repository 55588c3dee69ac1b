"""What SLO says that nodes lend, as far as it concerns their topologies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.bus.port import Entry
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.slo import NodeOffer
from berth.contracts.subjects import parts
from berth.device_inventory.core.zone_lending import ZonesSaid, zones_said

OFFER: Final = "offer"
OFFER_KEYS: Final = f"{OFFER}.>"


class OfferView:
    """By node name what its NUMA nodes are to show. Offers change far more often than that does."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.zones: dict[str, ZonesSaid] = {}
        self.unreadable = 0
        self._mark = mark

    def reset(self) -> None:
        """The bucket begins anew: nobody says anything, and what is shown stays."""
        self.zones.clear()

    def apply(self, entry: Entry) -> None:
        """One offer. One that cannot be read leaves what was known."""
        try:
            kind, name = parts(entry.key)
            said = None if kind != OFFER or entry.deleted else zones_said(decode(entry.value, NodeOffer))
        except (InvalidMessage, ValueError):
            self.unreadable += 1
            return
        if kind != OFFER or said == self.zones.get(name):
            return
        if said is None:
            del self.zones[name]
        else:
            self.zones[name] = said
        self._mark(name)

    def end(self, sequence: int) -> None:
        """Nothing waits for offers."""
