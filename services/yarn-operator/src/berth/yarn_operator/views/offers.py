"""What slo-manager says that nodes lend."""

from __future__ import annotations

from typing import Final

from berth.bus.port import Entry
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.slo import NodeOffer
from berth.contracts.subjects import parts

OFFER_KEYS: Final = ("offer.>",)


class OfferView:
    """Offers by name of the node."""

    def __init__(self) -> None:
        self.offers: dict[str, NodeOffer] = {}
        self.is_at_end = False
        self.unreadable = 0

    def reset(self) -> None:
        """The bucket begins anew."""
        self.offers.clear()
        self.is_at_end = False

    def apply(self, entry: Entry) -> None:
        """One message. One that cannot be read says nothing: YARN's part of that node is left as it is."""
        try:
            name = parts(entry.key)[1]
        except ValueError:
            self.unreadable += 1
            return
        self.offers.pop(name, None)
        if entry.deleted:
            return
        try:
            self.offers[name] = decode(entry.value, NodeOffer)
        except InvalidMessage:
            self.unreadable += 1

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        self.is_at_end = True
