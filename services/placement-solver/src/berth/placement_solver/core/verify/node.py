"""The capacity of one node: do its holders and the plan's claims fit together.

Two questions, in this order. Do the pods, bound or decided, fit the node, one after the other (Kubernetes' rule
`node_fit`, and the like for whatever is granted)? And do they leave to every reservation what is left of it? A node
that is over-committed already (by somebody else's doing) may stay so, but the plan must not make it worse, and must not
take anything of what is short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TypeAlias

from berth.contracts import names
from berth.placement_solver.core.verify.grants import Place, WishOf, beyond, capacity, granted
from berth.placement_solver.core.verify.laws.cores import amplified_problems, shows_more
from berth.placement_solver.core.verify.laws.devices import numbers_beyond
from berth.resources.amounts import add_into
from berth.rules.devices.kubelet_counts import given_both_ways, shown_at_zero
from berth.rules.node_fit import TOO_MANY_PODS, node_fit
from berth.rules.records import registry
from berth.rules.records.evidence import blocked
from berth.rules.reservation_inner import kept_of
from berth.transaction.claims import Claim, drawn_from

Item: TypeAlias = tuple[str, ...]
"""What is counted: a resource of the node, or kind, id and resource of what is granted."""
Sums: TypeAlias = dict[Item, int]
Measure: TypeAlias = Callable[[Claim], Iterable[tuple[Item, int]]]


class NodeCheck:
    """One node with its holders and the claims that a plan adds."""

    def __init__(
        self,
        place: Place,
        held: Sequence[Claim],
        arriving: Sequence[Claim],
        left_out: Callable[[Claim], Set[str]] = lambda claim: frozenset(),
        wish_of: WishOf = lambda claim: None,
    ) -> None:
        """`left_out` are resources that the profile of a claim's object leaves to others; `pods`: places as well."""
        self._place = place
        self._node = place.node
        self._wish_of = wish_of
        self._held = held
        self._arriving = arriving
        self._left_out = left_out
        self._one_by_one = registry.given_one_by_one(place.node.allocatable)

    def problems(self) -> list[str]:
        """All that does not fit."""
        problems = list(self._misfits())
        problems += self._unkept(self._plain, self._offered())
        if why := given_both_ways(self._arriving, self._held, self._node.allocatable):
            problems.append(why)
        problems += numbers_beyond(self._node, self._place.inventory, self._held, self._arriving)
        for claim in self._arriving:
            if zero := shown_at_zero(claim.amounts, self._node.allocatable):
                problems.append(f"shows {zero} at 0, wanted by {'/'.join(claim.name)}")
        if shows_more(self._node, self._place.topology):
            problems += amplified_problems(self._node, self._place.topology, self._held, self._arriving)
        if any(claim.grants for claim in self._arriving):
            unknown = blocked(
                (grant for claim in self._arriving for grant in claim.grants),
                (name for claim in self._held for name in claim.unreadable),
            )
            if unknown:
                problems.append(f"holds {unknown}, and nobody knows which, so none can be given out")
            totals = capacity(self._place)
            problems += self._overdrawn(totals)
            problems += beyond(self._place, self._held, self._arriving, self._wish_of)
            problems += self._unkept(granted, totals)
        if any(claim.ports for claim in self._arriving):
            problems += self._port_clashes()
        return problems

    def _misfits(self) -> Iterator[str]:
        """Each new pod beside the holders and the new ones before it; grants are counted one by one elsewhere."""
        arriving = [claim for claim in self._arriving if not claim.is_reservation]
        if not arriving:
            return
        there = [claim for claim in self._held if not claim.is_reservation]
        wanted = {(name,) for claim in arriving for name in claim.amounts}
        requested = {name: amount for (name,), amount in _sum(there, self._plain, wanted).items()}
        if self._fit_together(arriving, len(there), requested):
            return
        for before, claim in enumerate(arriving):
            left_out = self._left_out(claim)
            amounts = claim.amounts
            fit = node_fit(
                {name: amount for name, amount in amounts.items() if name not in left_out} if left_out else amounts,
                allocatable=self._node.allocatable,
                requested=requested,
                pod_count=len(there) + before,
                ignored=self._one_by_one,
            )
            reasons = [reason for reason in fit.reasons if reason != TOO_MANY_PODS or names.PODS not in left_out]
            yield from (f"{reason}, wanted by {'/'.join(claim.name)}" for reason in reasons)
            add_into(requested, claim.amounts)

    def _fit_together(self, arriving: Sequence[Claim], pod_count: int, requested: Mapping[str, int]) -> bool:
        """Whether there is enough of all that anybody asks for when all have come, so that each fits in its turn.

        Nobody is asked what his profile leaves to others: where it says no, each is looked at.
        """
        allocatable = self._node.allocatable
        if pod_count + len(arriving) > allocatable.get(names.PODS, 0):
            return False
        wanted: dict[str, int] = {}
        for claim in arriving:
            for name, amount in claim.amounts.items():
                if amount < 0:
                    return False
                wanted[name] = wanted.get(name, 0) + amount
        return all(requested.get(name, 0) + amount <= allocatable.get(name, 0) for name, amount in wanted.items())

    def _overdrawn(self, totals: Sums) -> Iterator[str]:
        """What pods take of each thing that is granted; it is governed by what it reports."""
        arriving = [claim for claim in self._arriving if not claim.is_reservation]
        drawn = _sum(arriving, granted, totals.keys())
        held = _sum((claim for claim in self._held if not claim.is_reservation), granted, drawn.keys())
        for item, amount in sorted(drawn.items()):
            taken = held.get(item, 0) + amount
            if amount > 0 and taken > totals[item]:
                yield f"{' '.join(item)}: {taken} claimed of {totals[item]}"

    def _unkept(self, measure: Measure, totals: Sums) -> Iterator[str]:
        """What reservations would lose: pods and what is left of reservations need more than there is."""
        everything = [*self._held, *self._arriving]
        if not any(claim.is_reservation for claim in everything):
            return
        wanted = {
            item
            for claim in self._arriving
            for item, amount in measure(claim)
            if amount > 0 and (len(item) > 1 or item[0] not in self._left_out(claim))
        }
        held = _sum((claim for claim in self._held if not claim.is_reservation), measure, wanted)
        taken = _sum((claim for claim in everything if not claim.is_reservation), measure, wanted)
        before = _remainders(self._held, measure, wanted)
        after = _remainders(everything, measure, wanted)
        for item in sorted(wanted):
            if item not in totals and len(item) > 1:
                continue  # what is granted is governed by what it reports
            total = totals.get(item, 0)
            kept = taken.get(item, 0) + after.get(item, 0)
            if kept > max(total, held.get(item, 0) + before.get(item, 0)):
                yield f"{' '.join(item)}: {kept} claimed or reserved of {total}"

    def _plain(self, claim: Claim) -> Iterator[tuple[Item, int]]:
        """What a claim takes of what is summed over the node."""
        for name, amount in claim.amounts.items():
            if name not in self._one_by_one and name != names.PODS:
                yield (name,), amount

    def _offered(self) -> Sums:
        return {(name,): amount for name, amount in self._node.allocatable.items()}

    def _port_clashes(self) -> Iterator[str]:
        taken = [port.split("/") for claim in self._held for port in claim.ports]
        for claim in self._arriving:
            mine = [port.split("/") for port in claim.ports]
            for address, protocol, port in mine:
                if any(_clash(address, protocol, port, other) for other in taken):
                    yield f"host port {protocol} {port} is taken, wanted by {'/'.join(claim.name)}"
            taken += mine


def _clash(address: str, protocol: str, port: str, other: Sequence[str]) -> bool:
    everywhere = "0.0.0.0"  # noqa: S104 - a value to compare with, nothing is bound
    return [protocol, port] == list(other[1:]) and (address == other[0] or everywhere in (address, other[0]))


def _sum(claims: Iterable[Claim], measure: Measure, wanted: Set[Item]) -> Sums:
    sums: Sums = {}
    for claim in claims:
        for item, amount in measure(claim):
            if item in wanted:
                sums[item] = sums.get(item, 0) + amount
    return sums


def _remainders(claims: Sequence[Claim], measure: Measure, wanted: Set[Item]) -> Sums:
    """What of the reservations among the claims their users have not taken, or never get."""
    sums: Sums = {}
    for reservation in claims:
        if reservation.is_reservation:
            used = _sum(drawn_from(claims, reservation.uid), measure, wanted)
            for item, amount in _sum([reservation], measure, wanted).items():
                inner = reservation.inner.get(item[0], 0) if len(item) == 1 else 0
                sums[item] = sums.get(item, 0) + kept_of(amount, used.get(item, 0), inner)
    return sums
