"""SLO as published: strategies of nodes, and beside them what they lend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from berth.bus.port import Entry
from berth.contracts.base import Message
from berth.contracts.slo import NodeOffer, NodeSLO
from berth.runtime import PublishedView
from berth.slo_manager.views.state import NODE

OFFER: Final = "offer"


class SloView(PublishedView[NodeSLO]):
    """Strategies by name of the node; `offers` by the same names."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        super().__init__(NODE, NodeSLO, mark)
        self.offers: PublishedView[NodeOffer] = PublishedView(OFFER, NodeOffer, mark)

    def apply(self, entry: Entry) -> None:
        """See `PublishedView`."""
        if _is_offer(entry.key):
            self.offers.apply(entry)
        else:
            super().apply(entry)

    def wrote(self, key: str, message: Message | None) -> None:
        """See `OwnView`."""
        if _is_offer(key):
            self.offers.wrote(key, message)
        else:
            super().wrote(key, message)

    def name_of(self, key: str) -> str | None:
        """See `OwnView`."""
        return self.offers.name_of(key) if _is_offer(key) else super().name_of(key)

    def get(self, key: str) -> Any:
        """See `OwnView`."""
        return self.offers.get(key) if _is_offer(key) else super().get(key)

    def reset(self) -> None:
        """The bucket begins anew."""
        super().reset()
        self.offers.reset()


def _is_offer(key: str) -> bool:
    return key.partition(".")[0] == OFFER
