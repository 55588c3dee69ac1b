"""Law: what pods borrow of a node is no more than the node offers, whatever its status shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.contracts.names import LENT
from berth.contracts.slo import NodeOffer
from berth.contracts.state import Node
from berth.transaction.claims import Claim


def lent_problems(
    node: Node, offer: NodeOffer | None, held: Sequence[Claim], arriving: Sequence[Claim]
) -> Iterator[str]:
    """What is borrowed beyond the offer by who arrives. An offer that fell below what is held takes nothing back."""
    if offer is None or offer.uid != node.uid:
        return
    pods = [claim for claim in (*held, *arriving) if not claim.is_reservation]
    for name in LENT:
        wanted = sum(claim.amounts.get(name, 0) for claim in arriving if not claim.is_reservation)
        offered = offer.offers[name].amount if name in offer.offers else 0
        lent = sum(claim.amounts.get(name, 0) for claim in pods)
        if wanted > 0 and lent > offered:
            yield f"lends {name} {lent} of {offered} offered in revision {offer.revision}"
