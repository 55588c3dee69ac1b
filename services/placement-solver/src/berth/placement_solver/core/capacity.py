"""Capacity: every claim and nomination that holds, charged to node columns, to what is granted within nodes, to quotas
and to reservations.

A reservation holds its amounts on its node; a pod placed into it draws from them, so what the node has to keep for
the reservation is only the remainder. That remainder is charged like a claim, and worked out anew whenever the
reservation or one of its users comes or goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from berth.contracts.ledger import Grant, Loan
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.nominated import Nominated
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.seams import BesideAmounts
from berth.placement_solver.core.tallies.charges import Charges
from berth.placement_solver.core.tallies.granted import grant_tallies
from berth.rules.ports import read_port
from berth.rules.reservation_fit import allocated_of
from berth.rules.reservation_inner import kept_of
from berth.transaction.claims import Claim, Name

NOTHING: Final[tuple[Grant, ...]] = ()


@dataclass
class Reserved:
    """A reservation that holds capacity: its claim, its users, and what of it is left for further users."""

    claim: Claim
    users: dict[tuple[Name, str], Claim] = field(default_factory=dict)
    amounts: dict[str, int] = field(default_factory=dict)
    grants: tuple[Grant, ...] = NOTHING
    used: dict[str, int] = field(default_factory=dict)
    """What its users take of what it holds."""
    loans: dict[tuple[Name, str], Loan] = field(default_factory=dict)
    """What others borrow of it."""

    @property
    def remainder(self) -> Claim:
        """What is kept for further users, as a claim. A record that cannot be read is no part of it: it blocks the
        node for users as well."""
        return self.claim._replace(amounts=self.amounts, grants=self.grants, unreadable=())

    @property
    def offered(self) -> Claim:
        """What of the remainder a user may take: without the inner part."""
        inner = self.claim.inner
        if not inner:
            return self.remainder
        return self.remainder._replace(
            amounts={name: max(0, amount - inner.get(name, 0)) for name, amount in self.amounts.items()}
        )


class Capacity:
    """Claims applied to the columns. `apply` is called by the book for each change, and by trials of the solver."""

    def __init__(self, nodes: Nodes, quotas: Quotas, charges: Charges | None = None) -> None:
        """`charges` tells the tallies of each pod."""
        self.nodes = nodes
        self.quotas = quotas
        self.charges = Charges() if charges is None else charges
        self._grant_tallies = grant_tallies(nodes)
        self._beside = [each for each in self._grant_tallies if isinstance(each, BesideAmounts)]
        self._alone = [each for each in self._grant_tallies if not isinstance(each, BesideAmounts)]
        self.reserved: dict[str, Reserved] = {}
        self._users_without: dict[str, dict[tuple[Name, str], Claim]] = {}
        self._loans_without: dict[str, dict[tuple[Name, str], Loan]] = {}
        self._assumed: dict[tuple[Name, str], Claim] = {}
        self._held: dict[tuple[Name, str], Claim] = {}
        self.nominated = Nominated(lambda claim, sign: self.apply(claim, sign, is_kept=True))
        self.released = 0

    def on_change(self, claim: Claim, added: bool) -> None:
        """The book's word: a claim holds from now on, or no longer. An assumed claim that comes true costs nothing."""
        key = (claim.name, claim.uid)
        held = self._held.pop(key, None)
        if held is not None:
            self.apply(held, -1, is_kept=True)
        assumed = self._assumed.pop(key, None)
        if assumed is not None:
            if added and assumed == claim:
                return
            self.apply(assumed, -1)
        self.apply(claim, 1 if added else -1)
        if not added:
            self.released += 1

    def assume(self, claims: Iterable[Claim]) -> None:
        """Claims applied by a trial that was committed: they stay, until the book says the same or `forget_assumed`."""
        for claim in claims:
            self._assumed[claim.name, claim.uid] = claim

    def forget_assumed(self) -> bool:
        """Take back what was assumed and has not come true; whether there was any."""
        forgotten = list(self._assumed.values())
        for claim in forgotten:
            self.apply(claim, -1)
        self._assumed.clear()
        self.nominated.restore_all()
        return bool(forgotten)

    def hold(self, claims: Iterable[Claim]) -> None:
        """Keep the capacity of these claims until the book says something of their objects, or `release_held`."""
        for claim in claims:
            self.apply(claim, 1, is_kept=True)
            self._held[claim.name, claim.uid] = claim

    @property
    def held(self) -> Collection[tuple[Name, str]]:
        """By name and uid, for whom capacity is kept by `hold`."""
        return self._held.keys()

    def release_held(self) -> set[Name]:
        """Take back what is held; whose capacity it was."""
        released = {claim.name for claim in self._held.values()}
        for claim in self._held.values():
            self.apply(claim, -1, is_kept=True)
        self._held.clear()
        return released

    def apply(self, claim: Claim, sign: int, *, is_kept: bool = False) -> None:
        """Charge (1) or give back (-1) a claim; `is_kept`: one of `hold`, or nominated."""
        if claim.is_reservation:
            self._apply_reservation(claim, sign)
            return
        row = self.nodes.row(claim.node)
        self.charges.apply(claim, row, sign, is_kept=is_kept)
        if claim.loans:
            self._apply_loans(claim, sign)
        holder = self.reserved.get(claim.reservation) if claim.reservation else None
        if holder is not None:
            self._charge_remainder(holder, -1)
        self._charge_pod(row, claim, sign)
        if claim.reservation:
            users = holder.users if holder else self._users_without.setdefault(claim.reservation, {})
            if sign > 0:
                users[claim.name, claim.uid] = claim
            else:
                users.pop((claim.name, claim.uid), None)
                if holder is None and not users:
                    del self._users_without[claim.reservation]
        if holder is not None:
            self._charge_remainder(holder, 1)

    def _charge_pod(self, row: int, claim: Claim, sign: int) -> None:
        self.nodes.take(row, claim.amounts, sign)
        if claim.grants:
            self._take_grants(row, claim.amounts, claim.grants, sign)
        if claim.ports:
            self.nodes.take_ports(row, map(read_port, claim.ports), sign)
        if claim.unreadable:
            self._block(row, claim.unreadable, sign)
        if claim.by_kubelet:
            self.nodes.counts.know(row, claim.amounts, sign)
        if claim.quota:
            self.quotas.charge(claim.quota, claim.charged, sign, non_preemptible=claim.non_preemptible)

    def _apply_loans(self, claim: Claim, sign: int) -> None:
        """What is borrowed is kept once: by who borrows."""
        for loan in claim.loans:
            holder = self.reserved.get(loan.reservation_uid)
            if holder is not None:
                self._charge_remainder(holder, -1)
            loans = holder.loans if holder is not None else self._loans_without.setdefault(loan.reservation_uid, {})
            if sign > 0:
                loans[claim.name, claim.uid] = loan
            else:
                loans.pop((claim.name, claim.uid), None)
            if holder is not None:
                self._charge_remainder(holder, 1)
            elif not loans:
                del self._loans_without[loan.reservation_uid]

    def _apply_reservation(self, claim: Claim, sign: int) -> None:
        if sign > 0:
            holder = Reserved(claim, self._users_without.pop(claim.uid, {}))
            holder.loans = self._loans_without.pop(claim.uid, {})
            self.reserved[claim.uid] = holder
            self._block(self.nodes.row(claim.node), claim.unreadable, 1)
            self._charge_remainder(holder, 1)
        else:
            gone = self.reserved.pop(claim.uid, None)
            if gone is not None:
                self._charge_remainder(gone, -1)
                self._block(self.nodes.row(gone.claim.node), gone.claim.unreadable, -1)
                if gone.users:
                    self._users_without[claim.uid] = gone.users
                if gone.loans:
                    self._loans_without[claim.uid] = gone.loans

    def _charge_remainder(self, holder: Reserved, sign: int) -> None:
        row = self.nodes.row(holder.claim.node)
        if sign > 0:
            users = [user for user in holder.users.values() if user.node == holder.claim.node]
            held, inner = holder.claim.amounts, holder.claim.inner
            holder.used = allocated_of((user.amounts for user in users), held)
            lent = allocated_of((loan.amounts for loan in holder.loans.values()), held)
            holder.amounts = {
                name: kept_of(amount, holder.used.get(name, 0) + lent.get(name, 0), inner.get(name, 0))
                for name, amount in held.items()
            }
            drawn = (*(user.grants for user in users), *(loan.grants for loan in holder.loans.values()))
            holder.grants = grants_left(holder.claim.grants, drawn)
        self.nodes.take(row, holder.amounts, sign, slots=0)
        if holder.grants:
            self._take_grants(row, holder.amounts, holder.grants, sign)

    def _block(self, row: int, unreadable: tuple[str, ...], sign: int) -> None:
        for tally in self._grant_tallies if unreadable else ():
            if tally.name in unreadable:
                tally.block(row, sign)

    def _take_grants(self, row: int, amounts: Mapping[str, int], grants: tuple[Grant, ...], sign: int) -> None:
        for each in self._beside:
            each.take_with(row, amounts, grants, sign)
        for tally in self._alone:
            tally.take(row, grants, sign)


def left_over(whole: Mapping[str, int], parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """What is left of amounts after the parts, never negative."""
    left = dict(whole)
    for part in parts:
        for name, amount in part.items():
            if name in left:
                left[name] = max(0, left[name] - amount)
    return left


def grants_left(whole: Iterable[Grant], parts: Iterable[Iterable[Grant]]) -> tuple[Grant, ...]:
    """What is left of grants after those of the users; one that is used up is left out."""
    used: dict[tuple[str, str], list[Mapping[str, int]]] = {}
    for part in parts:
        for grant in part:
            used.setdefault((grant.kind, grant.id), []).append(grant.amounts)
    rest = []
    for grant in whole:
        amounts = left_over(grant.amounts, used.get((grant.kind, grant.id), ()))
        if any(amounts.values()):
            rest.append(replace(grant, amounts=amounts))
    return tuple(rest)
