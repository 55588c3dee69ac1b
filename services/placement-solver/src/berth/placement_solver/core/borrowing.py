"""Pods that fill what is reserved and idle: where, and of which reservations they borrow how much.

A pod borrows only where it finds no other place, and only of Reservations of higher priority: their owners make it
leave when they come (`displacers/owners.py`). What it borrows is named, so that everybody counts it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from berth.contracts.ledger import Grant, Loan
from berth.contracts.state import Pod
from berth.placement_solver.core.constraints.node_resources_fit import is_plain
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.reserved import Offer
from berth.rules.records import registry
from berth.rules.reservation_borrowers import ignores_reservations, why_not_lent
from berth.transaction.claims import Claim


class Lender(NamedTuple):
    """A node, and the reservations there that lend to a pod, those of the lowest priority first."""

    row: int
    offers: tuple[Offer, ...]

    @property
    def idle(self) -> tuple[Claim, ...]:
        """What they have left."""
        return tuple(offer.holder.offered for offer in self.offers)


def lenders(pod: Pod, requests: Mapping[str, int], offers: Sequence[Offer], nodes: Nodes) -> Iterator[Lender]:
    """Nodes with something to lend."""
    if not ignores_reservations(pod.template.labels):
        return
    by_row: dict[int, list[tuple[int, str, Offer]]] = {}
    for offer in offers:
        priority = offer.known.capacity.priority
        if not why_not_lent(pod, priority) and _is_idle(offer):
            by_row.setdefault(nodes.row(offer.holder.claim.node), []).append((priority, offer.name, offer))
    granted = registry.GRANTED_RESOURCES & requests.keys()
    for row, found in sorted(by_row.items()):
        node = nodes.states[row]
        # What a kubelet counts is a sum that others keep.
        if node is None or not nodes.alive[row] or not granted <= registry.given_one_by_one(node.allocatable):
            continue
        yield Lender(row, tuple(offer for _, _, offer in sorted(found, key=lambda each: each[:2])))


def loans_of(lender: Lender, requests: Mapping[str, int], grants: Sequence[Grant], nodes: Nodes) -> tuple[Loan, ...]:
    """What of the request is borrowed of whom: amounts as far as the node has not enough beside, and what is granted as
    far as a reservation holds it."""
    missing = {
        name: amount - max(0, int(nodes.free[nodes.column(name), lender.row]))
        for name, amount in requests.items()
        if is_plain(name)
    }
    wanted = list(grants)
    loans: list[Loan] = []
    for offer, idle in zip(lender.offers, lender.idle, strict=True):
        amounts: dict[str, int] = {}
        for name, amount in idle.amounts.items():
            part = min(amount, missing.get(name, 0))
            if part > 0:
                amounts[name] = part
                missing[name] -= part
        parts = [common for grant in wanted if (common := _common(grant, idle.grants)) is not None]
        if amounts or parts:
            uid = offer.holder.claim.uid
            loans.append(Loan(reservation=offer.name, reservation_uid=uid, amounts=amounts, grants=parts))
    return tuple(loans)


def _is_idle(offer: Offer) -> bool:
    return bool(offer.holder.grants) or any(offer.holder.offered.amounts.values())


def _common(grant: Grant, idle: Sequence[Grant]) -> Grant | None:
    """What of a grant is of the same thing that is idle."""
    for each in idle:
        if (each.kind, each.id) == (grant.kind, grant.id):
            amounts = {
                name: min(amount, each.amounts.get(name, 0))
                for name, amount in grant.amounts.items()
                if each.amounts.get(name, 0) > 0
            }
            return replace(grant, amounts=amounts) if any(amounts.values()) else None
    return None
