"""Does a nominated place still take the object, once its victims have left?

What was free at the commit may be held by others by now: pods that another scheduler or a kubelet has put there, a node
that offers less. Then nobody is to leave for it. What the verifier of the solver lets pass, passes here too, or the two
would nominate and give up in turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from berth.contracts import names
from berth.contracts.ledger import Decision, Grant
from berth.contracts.state import Device, Node
from berth.rules.devices.kubelet_counts import given_both_ways
from berth.rules.node_fit import node_fit
from berth.rules.ports import UsedPorts, read_port
from berth.rules.records import registry
from berth.rules.records.evidence import blocked, called, whole
from berth.rules.reservation_inner import kept_of
from berth.transaction.book import Book
from berth.transaction.claims import Claim, drawn_from, of_decision

FIT: Final = "NodeResourcesFit"


def held_beside(decision: Decision, priority: int, book: Book) -> list[Claim]:
    """What is held on the node of a nomination once its victims have left.

    Nominations of its own plan and of equal or higher pods hold (E2), and their victims leave as well.
    """
    own = (decision.namespace, decision.name)
    beside = [
        each
        for each in book.nominations.on(decision.node)
        if each.name != own
        and each.decision is not None
        and (each.decision.plan == decision.plan or each.priority >= priority)
    ]
    gone = {victim.uid for victim in decision.victims}
    gone.update(victim.uid for each in beside for victim in each.victims)
    held = [claim for claim in book.claims_on(decision.node) if claim.name != own and claim.uid not in gone]
    return [*held, *(each.claim for each in beside)]


def shortage(decision: Decision, held: Sequence[Claim], node: Node, device: Device | None) -> str:
    """What of the place is not free beside those claims, in the words of kube-scheduler; empty: it fits.

    A resource that the node does not name is left to somebody else, as it was when the node was chosen, and amounts
    altogether where the profile does not ask for them.
    """
    mine = of_decision(decision)
    if FIT not in decision.unasked:
        reasons = [*_misfits(mine, held, node), *_unkept(mine, held, node)]
        if reasons:
            return f"node {node.name}: {reasons[0]}"
    both = given_both_ways([mine], held, node.allocatable)
    if both:
        return f"node {node.name}: {both}"
    if mine.grants:
        why = next(_overdrawn(mine, held, device), "")
        if why:
            return f"node {node.name}: {why}"
    clash = UsedPorts(read_port(port) for claim in held for port in claim.ports).conflict(map(read_port, mine.ports))
    return f"node {node.name}: host port {clash.protocol} {clash.port} is taken" if clash is not None else ""


def _misfits(mine: Claim, held: Sequence[Claim], node: Node) -> Iterator[str]:
    if mine.is_reservation:
        return
    pods = [claim for claim in held if not claim.is_reservation]
    requests = {name: amount for name, amount in mine.amounts.items() if name in node.allocatable}
    requested = {name: _sum(pods, name) for name in requests}
    fit = node_fit(
        requests,
        allocatable=node.allocatable,
        requested=requested,
        pod_count=len(pods),
        ignored=registry.given_one_by_one(node.allocatable),
    )
    yield from fit.reasons


def _unkept(mine: Claim, held: Sequence[Claim], node: Node) -> Iterator[str]:
    """What reservations would lose. A node that is over-committed already may stay so."""
    everything = [*held, mine]
    if not any(claim.is_reservation for claim in everything):
        return
    one_by_one = registry.given_one_by_one(node.allocatable)
    for name, amount in sorted(mine.amounts.items()):
        if amount <= 0 or name in one_by_one or name not in node.allocatable or name == names.PODS:
            continue
        before, after = (_sum_of_pods(each, name) + _left_of_reservations(each, name) for each in (held, everything))
        if after > max(node.allocatable[name], before):
            yield f"Insufficient {name} beside reservations"


def _overdrawn(mine: Claim, held: Sequence[Claim], device: Device | None) -> Iterator[str]:
    unknown = blocked(mine.grants, (kind for claim in held for kind in claim.unreadable))
    if unknown:
        yield f"a pod holds {unknown}, and nobody knows which"
    offered = {(each.kind, str(each.minor)): each.amounts for each in device.devices} if device is not None else {}
    for grant in mine.grants:
        for name, amount in sorted(grant.amounts.items()):
            total = _total(grant, name, offered.get((grant.kind, grant.id)))
            taken = sum(
                other.amounts.get(name, 0)
                for claim in held
                if not claim.is_reservation
                for other in claim.grants
                if (other.kind, other.id) == (grant.kind, grant.id)
            )
            if total > 0 and amount > 0 and taken + amount > total:
                yield f"Insufficient {name} on {called(grant)}"


def _total(grant: Grant, name: str, offered: Mapping[str, int] | None) -> int:
    """How much there is of it; 0 where nobody says. A device is governed by what it reports, up to a whole one."""
    most = whole(grant.kind, name)
    if offered is None:
        return most or 0
    total = offered.get(name, 0)
    return total if most is None else min(total, most)


def _sum(claims: Iterable[Claim], name: str) -> int:
    return sum(claim.amounts.get(name, 0) for claim in claims)


def _sum_of_pods(claims: Sequence[Claim], name: str) -> int:
    return _sum((claim for claim in claims if not claim.is_reservation), name)


def _left_of_reservations(claims: Sequence[Claim], name: str) -> int:
    """What of the reservations among the claims their users have not taken."""
    total = 0
    for reservation in claims:
        if reservation.is_reservation:
            used = _sum(drawn_from(claims, reservation.uid), name)
            total += kept_of(reservation.amounts.get(name, 0), used, reservation.inner.get(name, 0))
    return total
