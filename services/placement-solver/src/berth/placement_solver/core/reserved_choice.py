"""Which of the reservations that match a pod have enough for it, best first.

Whether amounts do, and which reservation is the best, are the rules of the protocol (`berth.rules.reservation_fit`,
`reservation_score`), asked about each node that has such reservations. What else a node demands of the pod, and what it
is granted there, is asked afterwards of one reservation after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts.base import Reason
from berth.contracts.names import PODS
from berth.placement_solver.core.constraints.node_resources_fit import is_plain
from berth.placement_solver.core.nodes import PODS as SLOTS
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.reserved import Offer
from berth.resources.amounts import format_amount
from berth.rules.node_fit import TOO_MANY_PODS
from berth.rules.reservation_fit import NATIVE, Fit, Matched, Room, Short, fit
from berth.rules.reservation_match import ReservationRequest
from berth.rules.reservation_score import Rated, preferred, reservation_score
from berth.transaction.claims import Claim

BOUNDLESS: Final = 1 << 62
"""What a node has of resources that are given out one by one: others say whether there is enough."""
REASONS_MAX: Final = 64


class Usable(NamedTuple):
    """`best_first` have enough; `reasons` say what the others lack."""

    best_first: Iterator[Offer]
    reasons: list[Reason]


def usable(
    wish: ReservationRequest,
    matching: Sequence[Offer],
    nodes: Nodes,
    ignored: Container[str],
    gone: Sequence[Claim] = (),
) -> Usable:
    """Of the reservations that match, those whose amounts do, once those claims are `gone` from their nodes."""
    by_node: dict[str, list[Offer]] = {}
    for offer in matching:
        by_node.setdefault(offer.holder.claim.node, []).append(offer)
    found: dict[str, Offer] = {}
    rated: list[Rated] = []
    reasons: list[Reason] = []
    for node, offers in by_node.items():
        matched = [matched_of(offer) for offer in offers]
        room = _room(nodes, nodes.row(node), wish.requests, offers)
        inside: dict[str, Counter[str]] = {}
        if gone:
            here = [claim for claim in gone if claim.node == node]
            inside, outside = _freed(here, offers)
            room = room._replace(preemptible=outside, pods=room.pods - len(here))
        judged = fit(
            wish.requests,
            room,
            matched,
            must=wish.must,
            named=wish.name,
            preemptible_inside=inside,
            ignored=ignored,
        )
        fitting = set(judged.usable)
        for offer, each in zip(offers, matched, strict=True):
            if offer.name in fitting:
                found[offer.name] = offer
                score = reservation_score(wish.requests, each.allocatable, each.allocated)
                rated.append(Rated(offer.name, node, offer.known.capacity.order, score))
        if not judged.fits and len(reasons) < REASONS_MAX:
            reasons += _lacking(judged, offers, is_named=bool(wish.name))
    return Usable((found[each.name] for each in preferred(rated)), reasons[:REASONS_MAX])


def _freed(gone: Sequence[Claim], offers: Sequence[Offer]) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """What these claims free: within the reservations that they draw on, by name, with their places; and beside."""
    holders = {offer.holder.claim.uid: offer for offer in offers}
    inside: dict[str, Counter[str]] = {}
    outside: Counter[str] = Counter()
    for claim in gone:
        offer = holders.get(claim.reservation)
        held = offer.holder.claim.amounts if offer is not None else {}
        outside.update({name: amount for name, amount in claim.amounts.items() if name not in held})
        if offer is not None:
            freed = inside.setdefault(offer.name, Counter())
            freed.update({name: amount for name, amount in claim.amounts.items() if name in held})
            freed[PODS] += 1
    return inside, outside


def matched_of(offer: Offer) -> Matched:
    """What the rule has to know of a reservation."""
    capacity, holder = offer.known.capacity, offer.holder
    claim = holder.claim
    return Matched(
        offer.name,
        capacity.allocate_policy,
        offer.tracked,
        claim.amounts,
        holder.used,
        claim.inner,
        len(holder.users),
    )


def _room(nodes: Nodes, row: int, requests: Mapping[str, int], offers: Sequence[Offer]) -> Room:
    """The node as the protocol's books have it: reservations in full, and their users beside them."""
    plain = {name for name in (*requests, *NATIVE) if is_plain(name)}
    allocatable = dict.fromkeys((name for name in requests if not is_plain(name)), BOUNDLESS)
    requested: dict[str, int] = {}
    twice: dict[str, int] = {}
    for name in plain:
        column = nodes.column(name)
        allocatable[name] = int(nodes.allocatable[column, row])
        booked = allocatable[name] - int(nodes.free[column, row])
        for _, holder in offers:
            booked += holder.claim.amounts.get(name, 0) - holder.amounts.get(name, 0)
        requested[name] = booked
        twice[name] = sum(holder.used.get(name, 0) for _, holder in offers)
    allocatable[PODS] = int(nodes.allocatable[SLOTS, row])
    pods = allocatable[PODS] - int(nodes.free[SLOTS, row]) + len(offers)
    return Room(allocatable, requested, pods, twice)


def _lacking(judged: Fit, offers: Sequence[Offer], *, is_named: bool) -> Iterator[Reason]:
    short: dict[str, list[Short]] = {}
    for each in judged.reservations:
        short.setdefault(each.reservation, []).append(each)
    by_node = ", ".join(TOO_MANY_PODS if name == PODS else f"Insufficient {name} by node" for name in judged.node)
    for offer in offers:
        name, lacks = offer.name, short.get(offer.name, [])
        if lacks:
            words = ", ".join(_words(each, is_named=is_named) for each in lacks)
            yield Reason(code="reservation", message=f"reservation {name}: {words}", repair=_repair(name, lacks))
        elif by_node:
            yield Reason(code="reservation", message=f"reservation {name}: {by_node}", nodes=1)


def _words(short: Short, *, is_named: bool) -> str:
    text = TOO_MANY_PODS if short.resource == PODS else f"Insufficient {short.resource}"
    if not is_named:
        return text
    return f"{text}, requested: {short.requested}, used: {short.used}, capacity: {short.capacity}"


def _repair(name: str, lacks: Sequence[Short]) -> str:
    more = " and ".join(
        f"{format_amount(each.resource, each.requested - each.capacity + each.used)} {each.resource}" for each in lacks
    )
    return f"reserve {more} more in {name}, where its node has that"
