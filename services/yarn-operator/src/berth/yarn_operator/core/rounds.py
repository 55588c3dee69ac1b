"""One round over the nodes of one YARN cluster: what to charge, what to grant, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from berth.contracts.names import BATCH_CPU, BATCH_MEMORY
from berth.contracts.slo import NodeOffer
from berth.contracts.state import Node
from berth.resources.amounts import Amounts
from berth.yarn_operator.core.dividing import Dividing
from berth.yarn_operator.core.listing import Listing
from berth.yarn_operator.core.notes import NAME, Noted, note_text
from berth.yarn_operator.core.pods import NodeManager
from berth.yarn_operator.core.step import Seen
from berth.yarn_operator.core.units import Share

LENT = (BATCH_CPU, BATCH_MEMORY)


class OnNode(NamedTuple):
    """A node with a NodeManager: its pod's, or the one that the note on the node names. `held`: what pods have asked
    for of what it lends. `offer` None: nothing is known of what it lends."""

    node: Node
    noted: Noted
    offer: NodeOffer | None
    manager: NodeManager
    has_pod: bool
    held: Amounts


class Charge(NamedTuple):
    """An annotation to write: from what it is to what it is to be."""

    node: Node
    before: str
    text: str
    share: Share


class Grant(NamedTuple):
    """A resource to give a NodeManager."""

    node: str
    manager: str
    share: Share


class Round(NamedTuple):
    """What comes of it; `waiting` says of nodes why nothing is decided about them, `wants` what YARN is to have."""

    charges: tuple[Charge, ...]
    grants: tuple[Grant, ...]
    waiting: Mapping[str, str]
    wants: Mapping[str, Share]


def plan_round(nodes: Iterable[OnNode], listing: Listing, dividing: Dividing, now: float) -> Round:
    """Decide about each node; monotonic seconds."""
    charges: list[Charge] = []
    grants: list[Grant] = []
    waiting: dict[str, str] = {}
    wants: dict[str, Share] = {}
    for each in nodes:
        name = each.node.name
        noted = each.noted
        if each.offer is None or each.offer.uid != each.node.uid:
            waiting[name] = "nothing is known of what the node lends"
            continue
        found = dividing.decide(name, _seen(each, each.offer, listing), noted, now)
        wants[name] = found.want
        if found.charge is not None:
            dividing.charging(name, noted, found.charge, now)
            text = note_text(noted, found.charge, each.manager, dividing.writer)
            charges.append(Charge(each.node, noted.text, text, found.charge))
        if found.grant is not None:
            dividing.granting(name, found.grant, now)
            grants.append(Grant(name, each.manager.id, found.grant))
    return Round(tuple(charges), tuple(_shrinking_first(grants, listing)), waiting, wants)


def _seen(each: OnNode, offer: NodeOffer, listing: Listing) -> Seen:
    others = each.noted.others
    return Seen(
        origin={name: max(0, offer.origin.get(name, 0) - others.get(name, 0)) for name in LENT},
        offered=_offered(each.noted, offer),
        held=each.held,
        charged=each.noted.charged,
        manager=listing.managers.get(each.manager.id),
        has_pod=each.has_pod,
    )


def _offered(noted: Noted, offer: NodeOffer) -> Amounts | None:
    """What is offered; None while that is by another note than the one which the node shows."""
    if offer.parties.get(NAME, 0) != noted.revision:
        return None
    return {name: offer.offers[name].amount for name in LENT if name in offer.offers}


def _shrinking_first(grants: Iterable[Grant], listing: Listing) -> Iterator[Grant]:
    """Those that take something back go first: somebody waits for it."""
    given = list(grants)
    yield from (each for each in given if not listing.managers[each.manager].granted.within(each.share))
    yield from (each for each in given if listing.managers[each.manager].granted.within(each.share))
