"""Reservations at every moment: who may draw on one, whether strangers leave free what it holds (I10,
I10b), and whether it is used as it demands (I29)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from berth.contracts import kube, names
from berth.contracts.grants import granted
from berth.contracts.ledger import Decision, Loan
from berth.invariants.counts import Excuse
from berth.invariants.facts import read_reservation_uid
from berth.invariants.observer.capacity import NOT_OF_NODES, Capacity
from berth.invariants.observer.holds import Hold, Minor, minors_of
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.reserved_terms import Terms, overdrawn, terms_of, unmet
from berth.invariants.observer.sight import Reader
from berth.invariants.observer.take_overs import taken_by
from berth.invariants.observer.verdicts import Verdicts
from berth.invariants.things import WHOLE
from berth.rules.reservation_borrowers import why_no_borrower
from berth.rules.reservation_inner import kept_of
from berth.rules.reservation_owners import CompiledOwners, PodIdentity, compile_owners


@dataclass(slots=True)
class Kept:
    """One Reservation that holds capacity, from its decision to its end."""

    name: str
    uid: str
    node: str
    amounts: Mapping[str, int]
    devices: tuple[tuple[Minor, int], ...] = ()
    is_placed: bool = False
    is_for_one: bool = True
    owners: CompiledOwners | None = None
    owners_since_s: float = field(default=0.0)
    terms: Terms | None = None
    terms_since_s: float = field(default=0.0)

    def kept(self, name: str, used: int) -> int:
        """What of an amount stays kept beside what users take."""
        inner = self.terms.inner.get(name, 0) if self.terms is not None and self.is_placed else 0
        return kept_of(self.amounts.get(name, 0), used, inner)


class Reserved:
    """Reservations that hold capacity, by uid and by node, and their users."""

    def __init__(self, verdicts: Verdicts, capacity: Capacity, pods: Mapping[tuple[str, str], Watched]) -> None:
        self._verdicts = verdicts
        self._capacity = capacity
        self._pods = pods
        self._by_uid: dict[str, Kept] = {}
        self._on_node: dict[str, set[str]] = {}
        self._users: dict[str, str] = {}
        self._taken: dict[str, tuple[Any, ...]] = {}
        self._loans: dict[str, Sequence[Loan]] = {}
        self._taken_over: dict[str, frozenset[str]] = {}
        """By Reservation: the pods that are its users by its own decision."""
        self._grown: dict[str, str] = {}
        """The plan by which each was judged last when it grew."""
        self._specs: dict[str, tuple[Any, float, CompiledOwners, bool]] = {}
        self._seen: dict[str, Watched] = {}
        self._terms: dict[str, tuple[Terms, float]] = {}

    def see(self, data: Mapping[str, Any], now: Watched) -> None:
        """A Reservation as it is now."""
        spec = data.get("spec") or {}
        owners = spec.get("owners")
        known = self._specs.get(now.uid)
        if known is None or known[0] != owners:
            read = msgspec.convert(owners or [], list[kube.ReservationOwner])
            since_s = self._capacity.sight.now_s if known is not None else -1e18
            self._specs[now.uid] = (owners, since_s, compile_owners(read), spec.get("allocateOnce") is not False)
        self._seen[now.name[1]] = now
        terms, had = terms_of(data), self._terms.get(now.uid)
        if had is None or had[0] != terms:
            self._terms[now.uid] = (terms, self._capacity.sight.now_s if had is not None else -1e18)
        if now.node and now.is_live and now.plan:
            devices = minors_of(now.node, now.devices)
            self._hold(Kept(now.name[1], now.uid, now.node, now.amounts, devices, is_placed=True))
        elif now.has_ended or (now.uid in self._by_uid and self._by_uid[now.uid].is_placed):
            self._drop(now.uid)

    def gone(self, uid: str) -> None:
        """A Reservation was deleted."""
        self._drop(uid)
        self._specs.pop(uid, None)
        self._terms.pop(uid, None)
        self._seen = {name: each for name, each in self._seen.items() if each.uid != uid}

    def claim(self, name: str, decision: Decision | None) -> None:
        """The decision on a Reservation, as LEDGER holds it now."""
        seen = self._seen.get(name)
        if seen is None:
            return
        known = self._by_uid.get(seen.uid)
        if known is not None and known.is_placed:
            self._grow(known, seen, decision)
            return
        is_current = decision is not None and decision.uid == seen.uid and decision.attempt == seen.attempt
        if decision is not None and is_current and seen.is_live and not seen.node:
            self._taken_over[seen.uid] = frozenset(step.pod_uid for step in taken_by(decision))
            grants = minors_of(decision.node, granted(decision.allocation))
            self._hold(Kept(name, seen.uid, decision.node, decision.allocation.amounts, grants))
        elif known is not None:
            self._drop(seen.uid)

    def decided(self, decision: Decision) -> None:
        """A pod was decided to draw on a reservation, or to borrow of some."""
        for loan in decision.loans:
            self._judge_loan(decision, loan)
        reserved = self._by_uid.get(decision.reservation_uid)
        if reserved is None or not reserved.is_placed:
            return
        text = f"{decision.namespace}/{decision.name}"
        subject = f"reservation {reserved.name}, {text}"
        self._verdicts.judged("I10")
        if decision.node != reserved.node:
            evidence = f"{text} is decided for {decision.node} out of reservation {reserved.name} on {reserved.node}"
            self._verdicts.add("I10", subject, evidence)
        self._judge_owner(decision, reserved, subject)
        self._judge_terms(decision, reserved, subject)

    def changed(self, uid: str, pod: Watched, decision: Decision | None) -> None:
        """What this pod holds may have changed."""
        hold = self._capacity.holds.get(uid)
        if hold is None:
            self._users.pop(uid, None)
            self._taken.pop(uid, None)
            self._loans.pop(uid, None)
            return
        if decision is not None:
            self._loans[uid] = decision.loans
        used = read_reservation_uid(pod.annotations) if hold.is_bound else decision.reservation_uid if decision else ""
        if used:
            is_new = self._users.get(uid) != used
            self._users[uid] = used
            if is_new:
                self._judge_single_use(used, hold)
                self._judge_restricted(used, hold)
        else:
            self._users.pop(uid, None)
        # A bind takes nothing: strangers may have come since its decision.
        before, taken = self._taken.get(uid), (hold.node, hold.amounts, hold.devices, used)
        self._taken[uid] = taken
        if before == taken or not hold.is_ours or not self._on_node.get(hold.node):
            return
        if used not in self._on_node[hold.node]:
            self._judge_capacity(hold.node, hold.amounts, hold.devices)

    def kept(self, node: str, name: str) -> int:
        """What the Reservations of a node hold of a resource, no matter who draws on them."""
        return sum(self._by_uid[uid].amounts.get(name, 0) for uid in self._on_node.get(node, ()))

    def _grow(self, known: Kept, seen: Watched, decision: Decision | None) -> None:
        """What a decision grows it to is its own from the commit on, until the object shows the plan."""
        if decision is None or not decision.grows or decision.uid != seen.uid:
            return
        if decision.attempt != seen.attempt or decision.plan == seen.plan:
            return
        more = decision.allocation.amounts
        names_held = known.amounts.keys() | more.keys()
        known.amounts = {name: max(known.amounts.get(name, 0), more.get(name, 0)) for name in names_held}
        if self._grown.get(seen.uid) != decision.plan:
            self._grown[seen.uid] = decision.plan
            self._judge_capacity(known.node, known.amounts, known.devices)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _hold(self, reserved: Kept) -> None:
        spec = self._specs.get(reserved.uid)
        if spec is not None:
            reserved.owners_since_s, reserved.owners, reserved.is_for_one = spec[1], spec[2], spec[3]
        if reserved.uid in self._terms:
            reserved.terms, reserved.terms_since_s = self._terms[reserved.uid]
        known = self._by_uid.get(reserved.uid)
        if known is not None and known.node != reserved.node:
            self._on_node[known.node].discard(reserved.uid)
        self._by_uid[reserved.uid] = reserved
        self._on_node.setdefault(reserved.node, set()).add(reserved.uid)
        if known is None or known.node != reserved.node:
            self._judge_capacity(reserved.node, reserved.amounts, reserved.devices)

    def _drop(self, uid: str) -> None:
        known = self._by_uid.pop(uid, None)
        self._taken_over.pop(uid, None)
        self._grown.pop(uid, None)
        if known is not None:
            on_node = self._on_node[known.node]
            on_node.discard(uid)
            if not on_node:
                del self._on_node[known.node]

    def _judge_owner(self, decision: Decision, reserved: Kept, subject: str) -> None:
        pod = self._pods.get((decision.namespace, decision.name))
        if pod is None or reserved.owners is None:
            return
        sight, since_s = self._capacity.sight, reserved.owners_since_s
        if not sight.has_seen(Reader.RESERVATION, since_s):
            self._verdicts.excused("I10", sight.excuse(since_s))
            return
        identity = PodIdentity(decision.namespace, decision.name, decision.uid, dict(pod.labels), pod.owners)
        if pod.uid == decision.uid and not reserved.owners.accept(identity):
            self._verdicts.add("I10", subject, f"{pod.text} draws on reservation {reserved.name} and is no owner of it")

    def _judge_terms(self, decision: Decision, reserved: Kept, subject: str) -> None:
        pod = self._pods.get((decision.namespace, decision.name))
        if pod is None or reserved.terms is None or pod.uid != decision.uid:
            return
        self._verdicts.judged("I29")
        identity = PodIdentity(decision.namespace, decision.name, decision.uid, dict(pod.labels), pod.owners)
        amounts = decision.allocation.amounts
        failed = unmet(reserved.terms, reserved.amounts, identity, pod.annotations, amounts)
        if not failed:
            return
        if not self._capacity.sight.has_seen(Reader.RESERVATION, reserved.terms_since_s):
            self._verdicts.excused("I29", self._capacity.sight.excuse(reserved.terms_since_s))
        else:
            text = f"{pod.text} draws on reservation {reserved.name}, which it does not match: {failed}"
            self._verdicts.add("I29", subject, text)

    def _judge_restricted(self, used: str, hold: Hold) -> None:
        reserved = self._by_uid.get(used)
        if reserved is None or reserved.terms is None or not hold.is_ours:
            return
        others = [uid for uid, each in self._users.items() if each == used and uid != hold.uid]
        holds = [self._capacity.holds[uid] for uid in others if self._capacity.holds[uid].is_ours]
        self._verdicts.judged("I29")
        beyond = list(overdrawn(reserved.terms, reserved.amounts, hold.amounts, (each.amounts for each in holds)))
        if not beyond:
            return
        if self._capacity.doubt.covers((hold.uid, *(each.uid for each in holds))):
            self._verdicts.excused("I29", Excuse.LOSS)
        elif not self._capacity.sight.has_seen(Reader.RESERVATION, reserved.terms_since_s):
            self._verdicts.excused("I29", self._capacity.sight.excuse(reserved.terms_since_s))
        else:
            text = f"{hold.text} takes of reservation {reserved.name} {', '.join(beyond)}"
            self._verdicts.add("I29", f"reservation {reserved.name}, {hold.text}", text)

    def _judge_single_use(self, used: str, hold: Hold) -> None:
        reserved = self._by_uid.get(used)
        if reserved is None or not reserved.is_for_one:
            return
        others = [uid for uid, each in self._users.items() if each == used and uid != hold.uid]
        self._verdicts.judged("I10")
        if others and self._capacity.doubt.covers((hold.uid, *others)):
            self._verdicts.excused("I10", Excuse.LOSS)
        elif others:
            listed = ", ".join((hold.text, *(self._capacity.holds[uid].text for uid in others)))
            text = f"reservation {reserved.name} serves one pod and has {len(others) + 1}: {listed}"
            self._verdicts.add("I10", f"reservation {reserved.name}", text)

    def _judge_capacity(self, node: str, wanted: Mapping[str, int], minors: tuple[tuple[Minor, int], ...]) -> None:
        """Holders of the node, and what its reservations have left, fit together in what was just taken."""
        limit = self._capacity.nodes.get(node)
        if limit is None:
            return
        holds = [
            hold
            for hold in self._capacity.on_node.get(node, {}).values()
            if self._capacity.is_known(hold, Reader.SOLVER)
        ]
        here = [self._by_uid[uid] for uid in sorted(self._on_node.get(node, ()))]
        # A decision that is in doubt may overlap with others; those beside it may not with each other.
        doubt, count = self._capacity.doubt, len(holds) + len(here)
        holds = [hold for hold in holds if not doubt.covers((hold.uid,))]
        here = [each for each in here if not doubt.covers((each.uid,))]
        if len(holds) + len(here) < count:
            self._verdicts.excused("I10b", Excuse.LOSS)
        if here:
            self._verdicts.judged("I10b")
        if len(holds) < len(self._capacity.on_node.get(node, ())):
            self._verdicts.excused("I10b", Excuse.STRANGER)
        for name, amount in wanted.items():
            if amount <= 0 or name in NOT_OF_NODES or name == names.PODS:
                continue
            held = sum(hold.amounts.get(name, 0) for hold in holds)
            left = sum(each.kept(name, self._used(each, holds, name) + self._lent(each, name, holds)) for each in here)
            if not left or held + left <= limit.amounts.get(name, 0):
                continue
            most = limit.most(name, lambda at_s: self._capacity.sight.has_seen(Reader.SOLVER, at_s))
            if most is None or held + left <= most:
                self._verdicts.excused("I10b", Excuse.UNSEEN)
            else:
                text = f"node {node}: {held} held and {left} still reserved of {most} {name}"
                self._verdicts.add("I10b", f"node {node}, {name}", text)
        for minor, amount in minors:
            if amount and minor[3] in WHOLE:
                self._judge_minor(minor, holds, here)

    def _judge_minor(self, minor: Minor, holds: list[Hold], here: list[Kept]) -> None:
        held = sum(_of(hold, minor) for hold in holds)
        left = 0
        for each in here:
            reserved = sum(amount for at, amount in each.devices if at == minor)
            used = sum(_of(hold, minor) for hold in self._users_of(each, holds))
            used += sum(
                grant.amounts.get(minor[3], 0)
                for loan in self._loans_of(each, holds)
                for grant in loan.grants
                if (grant.kind, grant.id) == minor[1:3]
            )
            left += max(0, reserved - used)
        most = WHOLE[minor[3]]
        if left and held + left > most:
            subject = f"node {minor[0]}, {minor[1]} {minor[2]}"
            text = f"{subject}: {held} held and {left} still reserved of {most} {minor[3]}"
            self._verdicts.add("I10b", f"{subject}, {minor[3]}", text)

    def _used(self, reserved: Kept, holds: list[Hold], name: str) -> int:
        return sum(hold.amounts.get(name, 0) for hold in self._users_of(reserved, holds))

    def _loans_of(self, reserved: Kept, holds: Iterable[Hold]) -> Iterator[Loan]:
        for hold in holds:
            for loan in self._loans.get(hold.uid, ()):
                if loan.reservation_uid == reserved.uid:
                    yield loan

    def _lent(self, reserved: Kept, name: str, holds: Iterable[Hold]) -> int:
        return sum(loan.amounts.get(name, 0) for loan in self._loans_of(reserved, holds))

    def _judge_loan(self, decision: Decision, loan: Loan) -> None:
        """I29b: who borrows has asked for it, may be made to leave, and takes what is idle on its own node."""
        pod = self._pods.get((decision.namespace, decision.name))
        reserved = self._by_uid.get(loan.reservation_uid)
        if pod is None or pod.uid != decision.uid or reserved is None or not reserved.is_placed:
            return
        self._verdicts.judged("I29b")
        subject = f"reservation {reserved.name}, {pod.text}"
        why = why_no_borrower(pod.labels)
        if reserved.node != decision.node:
            why = f"is decided for {decision.node}, the reservation is on {reserved.node}"
        if why:
            self._verdicts.add("I29b", subject, f"{pod.text} borrows of reservation {reserved.name} and {why}")
            return
        if self._capacity.doubt.covers((decision.uid,)):
            self._verdicts.excused("I29b", Excuse.LOSS)
            return
        holds = [hold for hold in self._capacity.on_node.get(reserved.node, {}).values() if hold.uid != decision.uid]
        for name, amount in loan.amounts.items():
            idle = reserved.kept(name, self._used(reserved, holds, name) + self._lent(reserved, name, holds))
            if reserved.terms is not None:
                idle -= min(reserved.terms.inner.get(name, 0), reserved.amounts.get(name, 0))
            if amount > idle:
                text = f"{pod.text} borrows {amount} of {name} of reservation {reserved.name}, of which {idle} is idle"
                self._verdicts.add("I29b", subject, text)

    def _users_of(self, reserved: Kept, holds: list[Hold]) -> Iterator[Hold]:
        taken = self._taken_over.get(reserved.uid, frozenset())
        return (hold for hold in holds if self._users.get(hold.uid) == reserved.uid or hold.uid in taken)


def _of(hold: Hold, minor: Minor) -> int:
    return sum(amount for at, amount in hold.devices if at == minor)
