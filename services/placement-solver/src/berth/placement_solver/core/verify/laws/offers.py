"""Law: what pods borrow of a node, or of a NUMA node of it, is no more than is offered there, whatever its status and
its NodeResourceTopology show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.contracts.grants import ZONE
from berth.contracts.names import LENT, LENT_BY_ZONE
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
    yield from _of_zones(offer, pods, [claim for claim in arriving if not claim.is_reservation])


def _of_zones(offer: NodeOffer, pods: Sequence[Claim], arriving: Sequence[Claim]) -> Iterator[str]:
    """Who was given nothing of a NUMA node in particular counts for the node alone."""
    wanted = _shares(arriving)
    if not wanted:
        return
    offered = {each.zone: each.amounts for each in offer.zones}
    for (zone, name), amount in sorted(_shares(pods).items()):
        most = offered.get(zone, {}).get(name, 0)
        if wanted.get((zone, name), 0) > 0 and amount > most:
            yield f"NUMA node {zone} lends {name} {amount} of {most} offered in revision {offer.revision}"


def _shares(claims: Sequence[Claim]) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for claim in claims:
        for grant in claim.grants:
            for name in LENT_BY_ZONE if grant.kind == ZONE else ():
                found[grant.minor, name] = found.get((grant.minor, name), 0) + grant.amounts.get(name, 0)
    return found
