"""SLO as published: strategies of nodes, and beside them what they lend and what their agents know of pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from berth.bus.port import Entry
from berth.contracts.base import Message
from berth.contracts.slo import NodeOffer, NodeSLO
from berth.runtime import PublishedView
from berth.slo_manager.views.entries import POD, PodEntries
from berth.slo_manager.views.state import NODE

OFFER: Final = "offer"


class SloView(PublishedView[NodeSLO]):
    """Strategies by name of the node; `offers` by the same names, `pods` by node and uid."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        super().__init__(NODE, NodeSLO, mark)
        self.offers: PublishedView[NodeOffer] = PublishedView(OFFER, NodeOffer, mark)
        self.pods = PodEntries(mark)

    def apply(self, entry: Entry) -> None:
        """See `PublishedView`."""
        other = self._other(entry.key)
        if other is None:
            super().apply(entry)
        else:
            other.apply(entry)

    def wrote(self, key: str, message: Message | None) -> None:
        """See `OwnView`."""
        other = self._other(key)
        if other is None:
            super().wrote(key, message)
        else:
            other.wrote(key, message)

    def name_of(self, key: str) -> str | None:
        """See `OwnView`."""
        other = self._other(key)
        return super().name_of(key) if other is None else other.name_of(key)

    def get(self, key: str) -> Any:
        """See `OwnView`."""
        other = self._other(key)
        return super().get(key) if other is None else other.get(key)

    def reset(self) -> None:
        """The bucket begins anew."""
        super().reset()
        self.offers.reset()
        self.pods.reset()

    def _other(self, key: str) -> PublishedView[NodeOffer] | PodEntries | None:
        kind = key.partition(".")[0]
        return self.offers if kind == OFFER else self.pods if kind == POD else None
