"""What nodes lend is divided: what is offered to Kubernetes and what another framework has of a node are never more
than the node lends (I40).

Whoever grows has to find room. A node that comes to lend less may leave both with more than there is, until the other
framework has shrunk; and what that is charged with it may still be granted, for the request is on its way. A
framework's agent that registers has what its configuration says until it is given its part; nobody is charged with
that, so Kubernetes may grow meanwhile by what is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.names import BATCH_CPU, BATCH_MEMORY
from berth.contracts.slo import NodeOffer
from berth.invariants.counts import Excuse
from berth.invariants.observer.verdicts import Verdicts

LAW: Final = "I40"
_KIND: Final = "offer"
_LENT: Final = (BATCH_CPU, BATCH_MEMORY)


class Divided:
    """The newest offers, and what the other framework has, by node."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self._offers: dict[str, NodeOffer] = {}
        self._has: dict[str, Mapping[str, int]] = {}
        self._registered: dict[str, Mapping[str, int]] = {}
        """What a framework's agent has of a node only because it has registered."""

    def see(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message that SLO has stored."""
        if key.partition(".")[0] != _KIND:
            return
        try:
            _, name = subjects.parts(key)
            offer = decode(value, NodeOffer) if not deleted else None
        except (InvalidMessage, ValueError):
            return  # said where offers are judged
        before = self._offers.pop(name, None)
        if offer is None:
            return
        self._offers[name] = offer
        for resource in self._beyond(name):
            offered = _offered(offer, resource)
            grew = before is None or offered > _offered(before, resource)
            has_room = offered + offer.taken.get(resource, 0) <= offer.origin.get(resource, 0)
            is_excused = has_room and name in self._registered
            excuse = Excuse.REGISTERED if is_excused else Excuse.LENT_LESS
            self._judge(name, resource, "Kubernetes" if grew and not is_excused else "", excuse)

    def has(self, node: str, amounts: Mapping[str, int], *, registers: bool) -> None:
        """The other framework has so much of a node now, handed out or not."""
        before = self._has.get(node, {})
        self._has[node] = dict(amounts)
        if registers:
            self._registered[node] = dict(amounts)
        elif self._registered.get(node) != amounts:
            self._registered.pop(node, None)
        for resource in self._beyond(node):
            has = amounts.get(resource, 0)
            grew = has > before.get(resource, 0)
            excuse = Excuse.REGISTERED if registers and grew else Excuse.LENT_LESS
            is_charged = has <= self._offers[node].taken.get(resource, 0)
            is_theft = grew and not registers and not is_charged
            self._judge(node, resource, "the other framework" if is_theft else "", excuse)

    def over(self) -> Iterator[str]:
        """Where both together have more than there is: once nothing goes wrong any more that is nowhere."""
        for node in sorted(self._has):
            for resource in self._beyond(node):
                yield self._told(node, resource)

    def _beyond(self, node: str) -> list[str]:
        """The resources of which both together have more than there is. Counts what is judged."""
        offer, has = self._offers.get(node), self._has.get(node)
        if offer is None or has is None:
            return []
        self._verdicts.judged(LAW, len(_LENT))
        return [
            resource
            for resource in _LENT
            if _offered(offer, resource) + has.get(resource, 0) > offer.origin.get(resource, 0)
        ]

    def _judge(self, node: str, resource: str, who: str, excuse: Excuse) -> None:
        if not who:
            self._verdicts.excused(LAW, excuse)
            return
        text = f"{who} comes to have more of node {node}: {self._told(node, resource)}"
        self._verdicts.add(LAW, f"node {node}, {resource}", text)

    def _told(self, node: str, resource: str) -> str:
        offer = self._offers[node]
        has, origin = self._has[node].get(resource, 0), offer.origin.get(resource, 0)
        return f"{node}: {_offered(offer, resource)} are offered and {has} granted of {origin} {resource}"


def _offered(offer: NodeOffer, resource: str) -> int:
    return offer.offers[resource].amount if resource in offer.offers else 0
