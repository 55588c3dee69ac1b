"""The last check before a bind (R11): does anybody else hold what this decision takes?

Everybody else means every claim of the writer's own book: bound pods of its view and unsettled decisions that it has
read, also those that the ledger has lost since. A grant or host port that Berth's own claims hold twice is the sign
of such a loss; one that takes the claim of somebody else's pod is not, nor one of cards that kubelet has picked.
Amounts prove nothing: a node may come to offer less than is claimed at any time, as an extended resource does while
kubelet starts.

A reservation and its users share what it holds, and so do those who borrow of it: it counts with what they leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from berth.contracts import names
from berth.contracts.ledger import Decision, Grant
from berth.rules.devices.kubelet_counts import given_both_ways, is_uncounted, shown_at_zero
from berth.rules.records import registry
from berth.rules.records.evidence import blocked, called, whole
from berth.rules.reservation_inner import kept_of
from berth.transaction.claims import Claim, drawn_from, of_decision

DEVICES = "DeviceShare"
"""The plugin that a profile leaves out which has devices given out by somebody else."""
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - an address to compare with


class Clash(NamedTuple):
    """What is claimed twice or not there, and whether Berth's own claims alone prove that the ledger has lost one."""

    text: str
    is_ours: bool


def clash(decision: Decision, claims: Iterable[Claim], allocatable: Mapping[str, int]) -> Clash | None:
    """The first thing that this decision takes and that is not free for it on its node; None when all is well."""
    mine = of_decision(decision)
    others = [claim for claim in claims if (claim.name, claim.uid) != (mine.name, mine.uid)]
    held = _held_twice(mine, others)
    if held:
        ours = [claim for claim in others if claim.is_ours and not claim.by_kubelet]
        return Clash(held, bool(_held_twice(mine, ours)))
    unknown = blocked(mine.grants, (name for claim in others for name in claim.unreadable)) if mine.grants else ""
    if unknown:
        return Clash(f"a pod on {mine.node} holds {unknown}, and nobody knows which", is_ours=False)
    zero = shown_at_zero(mine.amounts, allocatable)
    if zero:
        return Clash(f"{mine.node} shows {zero} at 0, so that kubelet would refuse the pod", is_ours=False)
    if DEVICES not in decision.unasked and is_uncounted(mine, allocatable):
        return Clash(f"kubelet of {mine.node} counts no cards any more, and none was chosen", is_ours=False)
    both = given_both_ways([mine], others, allocatable)
    if both:
        return Clash(f"{mine.node}: {both}", is_ours=False)
    lacking = _amounts(mine, others, allocatable) or _slots(mine, others, allocatable)
    return Clash(lacking, is_ours=False) if lacking else None


def _held_twice(mine: Claim, others: list[Claim]) -> str:
    """What is granted, or the host port, that is held twice; empty when nothing is."""
    return _grants(mine, others) or _ports(mine, others)


def _grants(mine: Claim, others: list[Claim]) -> str:
    claims = [*others, mine]
    for grant in {(each.kind, each.id): each for each in mine.grants}.values():
        taken = _of_thing(mine, grant)
        for name, asked in taken.items():
            most = whole(grant.kind, name)
            total = _total(claims, name, lambda claim, thing=grant: _of_thing(claim, thing))  # type: ignore[misc]
            if asked > 0 and most is not None and total > most:
                return f"{name} of {called(grant)} on {mine.node}: {total} claimed of {most}"
    return ""


def _of_thing(claim: Claim, thing: Grant) -> Mapping[str, int]:
    """What a claim takes of the same thing."""
    total: dict[str, int] = {}
    for grant in claim.grants:
        if (grant.kind, grant.id) == (thing.kind, thing.id):
            for name, amount in grant.amounts.items():
                total[name] = total.get(name, 0) + amount
    return total


def _ports(mine: Claim, others: list[Claim]) -> str:
    for port in mine.ports:
        holder = next((claim for claim in others if any(_is_same_port(port, other) for other in claim.ports)), None)
        if holder is not None:
            return f"host port {port} on {mine.node} is held by {'/'.join(holder.name)}"
    return ""


def _is_same_port(one: str, other: str) -> bool:
    """Two ports `address/protocol/port` exclude each other; the address of all addresses excludes each."""
    address, _, rest = one.partition("/")
    other_address, _, other_rest = other.partition("/")
    return rest == other_rest and (address == other_address or ALL_ADDRESSES in (address, other_address))


def _amounts(mine: Claim, others: list[Claim], allocatable: Mapping[str, int]) -> str:
    held = [*others, mine]
    one_by_one = registry.given_one_by_one(allocatable)
    for name, amount in mine.amounts.items():
        if amount <= 0 or name in one_by_one or name == names.PODS:
            continue
        total = _total(held, name, _amounts_of, with_inner=True)
        if total > allocatable.get(name, 0):
            return f"{name} on {mine.node}: {total} claimed of {allocatable.get(name, 0)}"
    return ""


def _slots(mine: Claim, others: list[Claim], allocatable: Mapping[str, int]) -> str:
    if mine.is_reservation or names.PODS not in allocatable:
        return ""
    pods = 1 + sum(1 for claim in others if not claim.is_reservation)
    if pods > allocatable[names.PODS]:
        return f"pods on {mine.node}: {pods} of {allocatable[names.PODS]}"
    return ""


def _amounts_of(claim: Claim) -> Mapping[str, int]:
    return claim.amounts


def _total(
    claims: Sequence[Claim], name: str, measure: Callable[[Claim], Mapping[str, int]], *, with_inner: bool = False
) -> int:
    """The sum over the claims, a reservation counting with what is left of it by its users and by who borrows of it."""
    total = 0
    for claim in claims:
        amount = measure(claim).get(name, 0)
        if claim.is_reservation:
            drawn = sum(measure(part).get(name, 0) for part in drawn_from(claims, claim.uid))
            amount = kept_of(amount, drawn, claim.inner.get(name, 0) if with_inner else 0)
        total += amount
    return total
