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


class OfferView(PublishedView[NodeOffer]):
    """Offers by name of the node; `lending` are those that lend anything."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        super().__init__(OFFER, NodeOffer, mark)
        self.lending: set[str] = set()

    def put(self, name: str, message: NodeOffer | None) -> None:
        """See `PublishedView`."""
        super().put(name, message)
        (self.lending.add if message is not None and message.offers else self.lending.discard)(name)

    def reset(self) -> None:
        """The bucket begins anew."""
        super().reset()
        self.lending.clear()


class SloView(PublishedView[NodeSLO]):
    """Strategies by name of the node; `offers` by the same names, `pods` by node and uid. `faulty` are nodes whose
    strategy has problems."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        super().__init__(NODE, NodeSLO, mark)
        self.faulty: set[str] = set()
        self.offers = OfferView(mark)
        self.pods = PodEntries(mark)

    def put(self, name: str, message: NodeSLO | None) -> None:
        """See `PublishedView`."""
        super().put(name, message)
        (self.faulty.add if message is not None and message.problems else self.faulty.discard)(name)

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
        self.faulty.clear()
        self.offers.reset()
        self.pods.reset()

    def _other(self, key: str) -> OfferView | PodEntries | None:
        kind = key.partition(".")[0]
        return self.offers if kind == OFFER else self.pods if kind == POD else None
