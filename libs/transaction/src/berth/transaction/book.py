"""The book of capacity: every claim that holds, kept up to date from STATE and LEDGER. The rule "capacity of an
account".

Free capacity is capacity, less what the view shows bound, less every unsettled decision whose uid the view does not
show bound. The book keeps the claims; callers sum them as they need. A stale view only ever leaves more claims
standing.

Solvers and cluster-writer use the same book. A writer's book also remembers decisions that have vanished from LEDGER
without being settled, since only that shows it that the ledger has lost something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from berth.contracts.ledger import Decision, Grant, PlanStatus, Victim
from berth.contracts.state import Pod, Reservation
from berth.resources.amounts import Amounts
from berth.transaction import claims, nominations
from berth.transaction.claims import Claim, Name
from berth.transaction.completeness import Completeness
from berth.transaction.ledger_view import LedgerView
from berth.transaction.marks import Marks
from berth.transaction.nominations import Nomination, Nominations
from berth.transaction.owners import Owners
from berth.transaction.revocations import is_revocation
from berth.transaction.take_overs import TakeOvers

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})

OnChange = Callable[[Claim, bool], None]
"""Called with a claim and whether it was added (True) or taken away (False)."""


OnNomination = Callable[[Nomination, bool], None]
"""Called with a nomination and whether it stands from now on (True) or no longer (False)."""


def _who_paid(pod: Pod | None, paid: str) -> tuple[str, Amounts]:
    return paid, {}


def _placed_by(seen: Pod | Reservation, standing: list[Decision]) -> Decision | None:
    """The decision that stands for this object where it is: that of the plan it names, should there be several."""
    found = [each for each in standing if each.uid == seen.uid and each.node == seen.node]
    return next((each for each in found if each.plan == seen.plan), found[0]) if found else None


def _ignore(claim: Claim, added: bool) -> None:
    pass


def _ignore_nomination(nomination: Nomination, added: bool) -> None:
    pass


Payer: TypeAlias = Callable[[Pod | None, str], tuple[str, Amounts]]
"""See `Book`."""


class Book:
    """Objects as seen, decisions as read, and the claims that follow from both.

    `remember` keeps unsettled decisions that left the ledger;
    `payer` says which quota group pays (`tree/group`, or empty), and for what of the request it does not, by the pod as
    it is seen (None: it is not) and who paid at the bind (empty: nobody says so).
    Nominations are kept apart from claims: their victims hold the same capacity until they have left.
    """

    def __init__(
        self,
        *,
        on_change: OnChange = _ignore,
        on_nomination: OnNomination = _ignore_nomination,
        remember: bool = False,
        payer: Payer = _who_paid,
    ) -> None:
        self.ledger = LedgerView()
        self.pods: dict[Name, Pod] = {}
        self.reservations: dict[Name, Reservation] = {}
        self.complete = {"pods": Completeness(), "reservations": Completeness()}
        self._on_change = on_change
        self._on_nomination = on_nomination
        self.nominations = Nominations()
        self.marks = Marks()
        self.take_overs = TakeOvers()
        self._payer = payer
        self._remember = remember
        self._remembered: dict[Name, dict[tuple[str, int], Decision]] = {}
        self._newest_epoch = 0
        self._claims: dict[Name, tuple[Claim, ...]] = {}
        self._read_claims: dict[Name, tuple[Pod | Reservation, Decision | None, Claim]] = {}
        self._owners = Owners()
        self._by_node: dict[str, dict[tuple[Name, str], Claim]] = {}
        self._waiting: set[Name] = set()
        self._picked: dict[str, Mapping[str, tuple[Grant, ...]]] = {}

    # --- input -------------------------------------------------------------------------------------------------------

    def reset_state(self) -> None:
        """STATE starts over: nothing is seen, nothing is gone; decisions still hold."""
        names = set(self.pods) | set(self.reservations) | set(self.ledger.decisions)
        self.pods.clear()
        self.reservations.clear()
        self._owners.clear()
        self.marks.clear()
        for tracker in self.complete.values():
            tracker.reset()
        for name in sorted(names):
            self.refresh(name)

    def reset_ledger(self) -> None:
        """LEDGER starts over: what it held is forgotten, or remembered by a writer."""
        names = list(self.ledger.decisions)
        self._keep(held.decision for held in self.ledger.decisions.values())
        self.ledger.reset()
        for name in names:
            self.refresh(name)

    def see_pod(self, name: Name, pod: Pod | None) -> None:
        """A pod was written or, with None, deleted."""
        self._owners.see_pod(name, pod)
        self.marks.see(name, pod)
        if pod is None:
            self.pods.pop(name, None)
        else:
            self.pods[name] = pod
        self.refresh(name)

    def see_reservation(self, name: Name, reservation: Reservation | None) -> None:
        """A Reservation was written or, with None, deleted."""
        if reservation is None:
            self.reservations.pop(name, None)
        else:
            self.reservations[name] = reservation
        self.refresh(name)
        for user in self._owners.see(name[1], reservation):
            self.refresh(user)

    def see_picked(self, node: str, picked: Mapping[str, tuple[Grant, ...]]) -> None:
        """The cards that kubelet of this node says it has picked, by uid of the pod.

        It stays while STATE starts over: who gives it out says so. What it says of a uid is true for as long as the
        pod is there.
        """
        before = self._picked.get(node, {})
        if picked == before:
            return
        if picked:
            self._picked[node] = picked
        else:
            del self._picked[node]
        uids = {uid for uid in picked.keys() | before.keys() if picked.get(uid) != before.get(uid)}
        for name in sorted(name for name, uid in self._by_node.get(node, ()) if uid in uids):
            self.refresh(name)

    def read_ledger(self, key: str, value: bytes, deleted: bool, sequence: int) -> set[Name]:
        """Take in one message of LEDGER; the names whose decisions it touched. Raises InvalidMessage when malformed.

        A plan that is committed touches none: its decisions have held their capacity since they were read.
        """
        before = self.ledger.decisions.copy() if key == "epoch" else {}
        change = self.ledger.apply(key, value, deleted, sequence)
        touched: set[Name] = set()
        if change.epoch:
            # Only a new epoch ends what is remembered, not the old one read again from a new bucket.
            if self.ledger.epoch.epoch > self._newest_epoch:
                self._newest_epoch = self.ledger.epoch.epoch
                self._remembered.clear()
            touched = set(before) | set(self._claims) | self._waiting
        elif change.name:
            touched = {change.name}
        elif change.settles:
            touched = set(self.ledger.members.get(change.plan, ()))
        elif change.plan and self._remember:
            held = map(self.ledger.decisions.__getitem__, self.ledger.members.get(change.plan, ()))
            self._keep(each.decision for each in held if not self.is_settled(each.decision))
        for name in sorted(touched):
            self._refresh(name)
        return touched

    def settle_waiting(self) -> set[Name]:
        """Judge again the decisions whose objects were absent from a view that was not complete enough yet."""
        names = set(self._waiting)
        for name in sorted(names):
            self._refresh(name)
        return names - self._waiting

    # --- rules -------------------------------------------------------------------------------------------------------

    def seen(self, name: Name) -> Pod | Reservation | None:
        """The object of this name as the view shows it."""
        return self.pods.get(name) if name[0] else self.reservations.get(name)

    def through(self, name: Name) -> int:
        """The version through which the view of this name's kind is complete."""
        return self.complete["pods" if name[0] else "reservations"].version

    def is_gone(self, decision: Decision) -> bool:
        """Rule Gone (R4): no object with this uid in a view complete through `pod_version`, or the object has ended."""
        if is_revocation(decision):
            return False
        name = (decision.namespace, decision.name)
        seen = self.seen(name)
        if seen is not None and seen.uid == decision.uid:
            return seen.phase in FINISHED_PHASES
        return self.through(name) >= decision.pod_version

    def is_settled(self, decision: Decision) -> bool:
        """Rule Settled: gone, or past its attempt, or its plan was aborted; of a nomination also: its pod is bound.

        A revocation: none of its victims stays, or its plan was aborted.
        """
        return self._settles(decision, self.seen((decision.namespace, decision.name)))

    def _settles(self, decision: Decision, seen: Pod | Reservation | None) -> bool:
        """`is_settled` for a caller that has looked its name up already."""
        if is_revocation(decision):
            stands = bool(self.staying_victims(nominations.of_ledger(decision, None)))
            return not stands or self.ledger.plan_status(decision.plan) is PlanStatus.ABORTED
        if seen is not None and seen.uid == decision.uid:
            if seen.attempt > decision.attempt or seen.phase in FINISHED_PHASES:
                return True
            if decision.nominates and seen.node:
                return True
        elif self.through((decision.namespace, decision.name)) >= decision.pod_version:
            return True
        return self.ledger.plan_status(decision.plan) is PlanStatus.ABORTED

    def is_bound(self, decision: Decision) -> bool:
        """The view shows the decision's object on a node."""
        seen = self.seen((decision.namespace, decision.name))
        return seen is not None and seen.uid == decision.uid and bool(seen.node)

    def open_decision(self, name: Name) -> Decision | None:
        """The unsettled decision, or nomination, under this name, whichever uid it is for (rules R3, E1)."""
        held = self.ledger.decisions.get(name)
        return held.decision if held and not self._settles(held.decision, self.seen(name)) else None

    def remaining_victims(self, nomination: Nomination) -> list[Victim]:
        """Its victims that have not left (E1)."""
        return nominations.remaining(nomination, self.pods, self.complete["pods"].version, FINISHED_PHASES)

    def staying_victims(self, nomination: Nomination) -> list[Victim]:
        """Its victims that have neither left nor are leaving."""
        return nominations.staying(self.remaining_victims(nomination), self.pods)

    # --- output ------------------------------------------------------------------------------------------------------

    def claims_on(self, node: str) -> Iterable[Claim]:
        """Every claim that holds on a node."""
        return self._by_node.get(node, {}).values()

    def noting(self, reservation_uid: str) -> Iterable[Name]:
        """The names of bound pods that note this Reservation as the one that they draw on."""
        return self._owners.noting(reservation_uid)

    def claims_of(self, name: Name) -> tuple[Claim, ...]:
        """The claims of one name: that of the object, that of a decision, or both when their uids differ."""
        return self._claims.get(name, ())

    def claims(self) -> Iterator[Claim]:
        """Every claim that holds."""
        for each in self._claims.values():
            yield from each

    def refresh(self, name: Name) -> None:
        """Work out the claims of a name again, from scratch, and report the difference."""
        self._read_claims.pop(name, None)
        self._refresh(name)

    def _refresh(self, name: Name) -> None:
        seen = self.seen(name)
        standing = self._standing(name, seen)
        self._nominate(name, self._nomination(seen, standing))
        new = self._work_out(name, seen, [each for each in standing if not each.nominates])
        self._set(name, new)
        if not name[0]:
            for pod in sorted(self.take_overs.see(name, standing)):
                self.refresh(pod)

    def _set(self, name: Name, new: tuple[Claim, ...]) -> None:
        """These are the claims of a name; the difference is reported."""
        old = self._claims.get(name, ())
        if new == old:
            return
        for claim in old:
            del self._by_node[claim.node][claim.name, claim.uid]
            if not any(claim.takes_as(other) for other in new):
                self._on_change(claim, False)
        for claim in new:
            self._by_node.setdefault(claim.node, {})[claim.name, claim.uid] = claim
            if not any(claim.takes_as(other) for other in old):
                self._on_change(claim, True)
        if new:
            self._claims[name] = new
        else:
            self._claims.pop(name, None)

    def _standing(self, name: Name, seen: Pod | Reservation | None) -> list[Decision]:
        """The decisions and nominations of a name that are not settled."""
        standing: list[Decision] = []
        waiting = False
        for decision in self._decisions(name):
            if self._settles(decision, seen):
                self._forget(name, decision)
                continue
            waiting = waiting or seen is None or seen.uid != decision.uid
            standing.append(decision)
        if waiting:
            self._waiting.add(name)
        else:
            self._waiting.discard(name)
        return standing

    def _nomination(self, seen: Pod | Reservation | None, standing: list[Decision]) -> Nomination | None:
        """That of LEDGER; or the one that the object itself carries, if LEDGER has nothing for it (E3)."""
        for decision in standing:
            if decision.nominates:
                made = nominations.of_ledger(decision, seen)
                if is_revocation(decision):
                    return made
                return made._replace(claim=self._paid(made.claim, seen))
        note = nominations.note_of(seen)
        if seen is None or note is None or seen.phase in FINISHED_PHASES:
            return None
        if any(decision.uid == seen.uid for decision in standing):
            return None
        return Nomination(self._paid(claims.of_note(seen, note), seen), seen.template.priority)

    def _nominate(self, name: Name, nomination: Nomination | None) -> None:
        old = self.nominations.of(name)
        if nomination == old:
            return
        self.nominations.set(name, nomination)
        if old is not None:
            self._on_nomination(old, False)
        if nomination is not None:
            self._on_nomination(nomination, True)

    def _work_out(self, name: Name, seen: Pod | Reservation | None, standing: list[Decision]) -> tuple[Claim, ...]:
        result: list[Claim] = []
        if seen is not None and seen.node and seen.phase not in FINISHED_PHASES:
            result.append(self._of_seen(name, seen, standing))
        for decision in standing:
            if all(decision.uid != other.uid for other in result):
                result.append(self._paid(claims.of_decision(decision), seen))
        return tuple(result)

    def _of_seen(self, name: Name, seen: Pod | Reservation, standing: list[Decision]) -> Claim:
        """The claim of a bound object, read once per version of it and of the decision that says what it was given."""
        decision = _placed_by(seen, standing)
        known = self._read_claims.get(name)
        if known is not None and known[0] is seen and known[1] is decision:
            return known[2]
        claim = self._of_pod(seen, decision) if isinstance(seen, Pod) else claims.of_reservation(seen, decision)
        self._read_claims[name] = (seen, decision, claim)
        return claim

    def _of_pod(self, pod: Pod, decision: Decision | None) -> Claim:
        picked = self._picked[pod.node].get(pod.uid) if pod.node in self._picked else None
        owners = self._owners
        claim = claims.of_pod(
            pod, decision, lambda uid: owners.accept(uid, pod), picked, lambda uid: owners.lends(uid, pod)
        )
        if not claim.reservation:
            claim = claim._replace(reservation=self.take_overs.reservation_of(pod))
        return self._paid(claim, pod)

    def _paid(self, claim: Claim, seen: Pod | Reservation | None) -> Claim:
        """The claim with the group that pays for it now."""
        if claim.is_reservation:
            return claim
        pod = seen if isinstance(seen, Pod) and seen.uid == claim.uid else None
        quota, free = self._payer(pod, claim.paid)
        if quota == claim.quota and free == claim.uncharged:
            return claim
        return claim._replace(quota=quota, uncharged=free)

    def _decisions(self, name: Name) -> list[Decision]:
        held = self.ledger.decisions.get(name)
        found = [held.decision] if held else []
        if self._remember:
            if held:
                self._keep([held.decision])
            known = self._remembered.get(name, {})
            found += [
                d
                for d in known.values()
                if not held or (d.uid, d.attempt) != (held.decision.uid, held.decision.attempt)
            ]
        return found

    def _keep(self, decisions: Iterable[Decision]) -> None:
        if self._remember:
            for decision in decisions:
                # A nomination that is lost is remembered by Kubernetes (E3), and clashes with nobody (R11).
                if not decision.nominates and self.ledger.plan_status(decision.plan) is PlanStatus.COMMITTED:
                    name = (decision.namespace, decision.name)
                    self._remembered.setdefault(name, {})[decision.uid, decision.attempt] = decision

    def _forget(self, name: Name, decision: Decision) -> None:
        known = self._remembered.get(name)
        if known and known.pop((decision.uid, decision.attempt), None) and not known:
            del self._remembered[name]
