"""The decision: units of waiting pods against the capacity there is. Deterministic; no I/O, clock or randomness.

Units are taken in order. A pod goes to the node of least cost; a gang is placed member by member on the capacity that
the earlier members left, and taken back whole when a gang of the group stays below its minimum. Everything is tried on
the live columns and taken back by the caller (`Trial`), so that a plan costs nothing to throw away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
import numpy as np

from berth.contracts.base import Reason
from berth.contracts.ledger import GangDomain, GangRef, Grant, Step
from berth.contracts.state import Pod, Reservation
from berth.placement_solver.core import explain
from berth.placement_solver.core.borrowing import lenders, loans_of
from berth.placement_solver.core.capacity import Capacity
from berth.placement_solver.core.cost import Costs
from berth.placement_solver.core.gatherers.attempt import SolverAttempt
from berth.placement_solver.core.gatherers.seam import Gathered, Gatherer, Job
from berth.placement_solver.core.picking import Asked as ScoreAsked
from berth.placement_solver.core.picking import Picker
from berth.placement_solver.core.plan import Candidate, Placement, Refusal, Solution, Unit
from berth.placement_solver.core.policy import Policy
from berth.placement_solver.core.registry import Asked, Chosen
from berth.placement_solver.core.repair import group_repair
from berth.placement_solver.core.reserved import Offer, Reservations
from berth.placement_solver.core.reserved_choice import REASONS_MAX, usable
from berth.placement_solver.core.seams import Depends, Floats, Hypothesis, Mask, Rejection, Target, reserves
from berth.placement_solver.core.take_overs.attempt import SolverTrying
from berth.placement_solver.core.take_overs.placing import TakeOvers
from berth.placement_solver.core.trial import Trial
from berth.rules.ports import write_port
from berth.rules.preemption import BY_HAND_OVER
from berth.rules.records.evidence import by_number
from berth.transaction.claims import Claim, Name
from berth.transaction.nominations import Nomination

BESIDE: Final = Reason(code="gang", message="the others of the gang leave no room for it where they lie")
"""Of members above the minimum, for whom the domain of the others has no room."""


class Solver:
    """`solve` over the capacity, its reservations and a policy."""

    def __init__(self, capacity: Capacity, reservations: Reservations, policy: Policy) -> None:
        self.capacity = capacity
        self.nodes = capacity.nodes
        self.reservations = reservations
        self.policy = policy
        self.costs = Costs(capacity.nodes, policy)
        self.picker = Picker(capacity.nodes, policy)
        self.take_overs: TakeOvers | None = None
        """Where Reservations go that take over pods; None: none does."""
        self.tells = True
        """Whether refusals come with words; else with what `core.explain.untold` says."""
        self._within: Mask | None = None
        self._made: tuple[Candidate, Claim] | None = None
        """The claim that was made last which is granted nothing by itself."""

    @contextmanager
    def telling(self, *, words: bool = True) -> Iterator[None]:
        """Refusals come with words meanwhile, or without."""
        before, self.tells = self.tells, words
        try:
            yield
        finally:
            self.tells = before

    def solve(self, units: Iterable[Unit], trial: Trial, plan: str) -> Solution:
        """Place what can be placed, in the order given; the trial holds the claims of every placement returned."""
        placements: list[Placement] = []
        refusals: list[Refusal] = []
        for unit in units:
            if unit.needed:
                self._place_group(unit, trial, plan, placements, refusals)
            else:
                for candidate in unit.candidates:
                    found = self.place(candidate, trial, plan)
                    if isinstance(found, Placement):
                        placements.append(alone(found))
                    else:
                        refusals.append(Refusal(candidate, found))
        return Solution(tuple(placements), tuple(refusals))

    def place(
        self, candidate: Candidate, trial: Trial, plan: str, within: Mask | None = None
    ) -> Placement | tuple[Reason, ...]:
        """Place one candidate on what is left, applying its claim to the trial; or the reasons against it.

        `within`: on no other rows than these.
        """
        self._within = within
        if candidate.cls.refusals:
            return tuple(candidate.cls.refusals)
        if candidate.refusals:
            return candidate.refusals
        if not self.capacity.nominated:
            return self._place(candidate, trial, plan)
        before = len(trial.claims)
        nomination = trial.release(candidate.name)
        with self.capacity.nominated.without_lower(candidate.object.template.priority):
            row = self.nodes.rows.get(nomination.claim.node) if nomination is not None else None
            if row is not None and within is not None and not within[row]:
                row = None
            handed = row if _is_handed(nomination) else None
            there = self.place_on(candidate.served, handed, trial, plan) if handed is not None else None
            found = there or self._place(candidate, trial, plan, row)
        if not isinstance(found, Placement):
            trial.undo(before)
        return found

    def _place(
        self, candidate: Candidate, trial: Trial, plan: str, left: int | None = None
    ) -> Placement | tuple[Reason, ...]:
        """`left`: the row of the node where others have left for it, which comes first of those beside reservations."""
        if candidate.quota is not None:
            reason = self.capacity.quotas.refusal(
                candidate.quota, candidate.charged, non_preemptible=candidate.non_preemptible
            )
            if reason is not None:
                return (reason,)
        wish = candidate.wish
        if wish is not None and (self.reservations.known or wish.problem is not None):
            found = self._place_reserved(candidate, trial, plan)
            if isinstance(found, Placement):
                return found
            if wish.must:
                return found
        elif wish is not None and wish.must:
            return (self.reservations.no_match(wish, self.capacity),)
        elif isinstance(obj := candidate.object, Reservation) and obj.pre_allocation and self.take_overs is not None:
            return self.take_overs.place(candidate, obj, SolverTrying(self, candidate, trial, plan))
        if left is not None and (there := self.place_on(candidate, left, trial, plan)) is not None:
            return self._letting_go(there, trial, plan)
        found = self._place_plain(candidate, trial, plan)
        if isinstance(found, Placement):
            return self._letting_go(found, trial, plan)
        if wish is not None or not isinstance(candidate.object, Pod):
            return found
        return self._borrow(candidate, candidate.object, trial, plan) or found

    def _letting_go(self, found: Placement, trial: Trial, plan: str) -> Placement:
        """A Reservation that was to take over pods, and does not any more, leaves no note on them."""
        obj, take_overs = found.candidate.object, self.take_overs
        if take_overs is None or not isinstance(obj, Reservation) or not take_overs.is_noted(obj):
            return found
        return take_overs.letting_go(found, obj, SolverTrying(self, found.candidate, trial, plan))

    def _borrow(self, candidate: Candidate, pod: Pod, trial: Trial, plan: str) -> Placement | None:
        """A place on what is reserved and idle, for a pod that its owners may make leave."""
        cls, requests = candidate.cls, candidate.cls.requests
        offers = self.reservations.lending(self.capacity)
        for lender in lenders(pod, requests, offers, self.nodes):
            target = Target(lender.row, Hypothesis(gone=lender.idle))
            asked = cls.rules.in_order((*cls.asked, *candidate.asked))
            if not _admitted(asked, target) or not self._admitted_beside_nominated(candidate, lender.row):
                continue
            grants = _chosen(cls.chosen, target)
            before = _reserved(candidate.asked, target)
            if isinstance(grants, Rejection) or before is None:
                continue
            claim = self._make_claim(candidate, lender.row, grants, plan, before=before)
            claim = claim._replace(loans=loans_of(lender, requests, grants, self.nodes))
            trial.add(claim)
            return Placement(candidate, claim)
        return None

    def place_on(self, candidate: Candidate, row: int, trial: Trial, plan: str) -> Placement | None:
        """Place a candidate on one given node, if it fits there exactly."""
        if candidate.cls.refusals or candidate.refusals or not self.costs.takes(candidate.cls, row):
            return None
        if not _admitted(candidate.asked, Target(row)) or not self._admitted_beside_nominated(candidate, row):
            return None
        quota = candidate.quota
        if quota is not None and self.capacity.quotas.refusal(
            quota, candidate.charged, non_preemptible=candidate.non_preemptible
        ):
            return None
        claim = self._claim(candidate, Target(row), plan)
        if claim is None:
            return None
        trial.add(claim)
        return Placement(candidate, claim)

    def place_at(self, candidate: Candidate, row: int, trial: Trial, plan: str) -> Placement | None:
        """Place a candidate on one given node, as `place` would if there were no other."""
        if not self.capacity.nominated:
            return self.place_on(candidate, row, trial, plan)
        before = len(trial.claims)
        trial.release(candidate.name)
        with self.capacity.nominated.without_lower(candidate.object.template.priority):
            found = self.place_on(candidate, row, trial, plan)
        if found is None:
            trial.undo(before)
        return found

    def may_draw(self, candidate: Candidate) -> bool:
        """Whether a candidate may be placed on a reservation, or must be; or takes over pods, or did."""
        if isinstance(candidate.object, Reservation):
            is_noted = self.take_overs is not None and self.take_overs.is_noted(candidate.object)
            return candidate.object.pre_allocation or is_noted
        wish = candidate.wish
        return wish is not None and (wish.must or wish.problem is not None or bool(self.reservations.known))

    @property
    def within(self) -> Mask | None:
        """The only rows that come into question for who is placed; None: all do."""
        return self._within

    def place_free(self, candidate: Candidate, trial: Trial, plan: str) -> Placement | tuple[Reason, ...]:
        """Place a candidate that draws on no reservation where there is enough for it."""
        return self._place_plain(candidate, trial, plan)

    def admits(self, candidate: Candidate, target: Target) -> bool:
        """Whether a node takes the candidate under a hypothesis, for all that constraints say, and beside the pods that
        are nominated to it."""
        asked = candidate.cls.rules.in_order((*candidate.cls.asked, *candidate.asked))
        return _admitted(asked, target) and self._admitted_beside_nominated(candidate, target.row)

    def place_under(self, candidate: Candidate, target: Target, plan: str) -> Placement | None:
        """The placement on a node that takes the candidate under a hypothesis; nothing is charged."""
        claim = self._claim(candidate, target, plan)
        return Placement(candidate, claim) if claim is not None else None

    def _admitted_beside_nominated(self, candidate: Candidate, row: int) -> bool:
        """Whether it may be beside the pods of equal or higher priority that are nominated to the node, too."""
        if not candidate.asked or not self.capacity.nominated:
            return True
        priority = candidate.object.template.priority
        there = tuple(
            each.claim
            for each in self.capacity.nominated.on(self.nodes.names[row])
            if each.priority >= priority and each.name != candidate.name
        )
        # The rest of what a nomination takes is charged.
        of_peers = (each for each in candidate.asked if Depends.PEERS in each[0].depends)
        return not there or _admitted(of_peers, Target(row, Hypothesis(there=there)))

    def _place_plain(self, candidate: Candidate, trial: Trial, plan: str) -> Placement | tuple[Reason, ...]:
        if not len(self.nodes):
            return self._why(candidate)
        ranked = self.costs.ranked(candidate.cls)
        row = ranked.first()
        if not np.isfinite(ranked.values[row]):
            return self._why(candidate)
        scores = self.picker.asked(candidate)
        claim = None
        if not candidate.asked and self._within is None and not scores:
            claim = self._claim(candidate, Target(row), plan)
        claim = claim or self._claim_among(candidate, scores, ranked.values.copy(), plan)
        if claim is None:
            return self._why(candidate)
        trial.add(claim)
        return Placement(candidate, claim)

    def _claim_among(self, candidate: Candidate, scores: Sequence[ScoreAsked], cost: Floats, plan: str) -> Claim | None:
        """The claim on the best node that takes the candidate exactly; `cost` is used up."""
        if self._within is not None:
            cost[~self._within[: cost.size]] = np.inf
        for constraint, query in candidate.asked:
            cost[~constraint.mask(query, slice(0, cost.size))] = np.inf
        inexact = tuple(each for each in candidate.asked if not each[0].exact)
        while (row := self.picker.next(candidate.cls, scores, cost)) is not None:
            is_admitted = _admitted(inexact, Target(row)) and self._admitted_beside_nominated(candidate, row)
            claim = self._claim(candidate, Target(row), plan) if is_admitted else None
            if claim is not None:
                return claim
            cost[row] = np.inf
        return None

    def _claim(self, candidate: Candidate, target: Target, plan: str) -> Claim | None:
        """The claim on this node, with what is granted there; None when that does not fit after all, or when it has to
        draw on a reservation, which `draw_on` does."""
        if candidate.wish is not None and (candidate.wish.must or candidate.wish.problem is not None):
            return None
        grants = _chosen(candidate.cls.chosen, target)
        if isinstance(grants, Rejection):
            return None
        before = _reserved(candidate.asked, target) if candidate.asked else ()
        return None if before is None else self._make_claim(candidate, target.row, grants, plan, before=before)

    def _make_claim(
        self,
        candidate: Candidate,
        row: int,
        grants: tuple[Grant, ...],
        plan: str,
        reservation: str = "",
        before: tuple[Step, ...] = (),
    ) -> Claim:
        is_plain = not grants and not reservation and not before
        if is_plain and self._made is not None and _ask_alike(candidate, self._made[0]) and self._made[1].plan == plan:
            # The first three fields of a claim say whose it is, and where.
            return Claim(candidate.name, candidate.object.uid, self.nodes.names[row], *self._made[1][3:])
        claim = Claim(
            name=candidate.name,
            uid=candidate.object.uid,
            node=self.nodes.names[row],
            amounts=dict(candidate.cls.requests),
            grants=grants,
            ports=tuple(map(write_port, ports)) if (ports := candidate.cls.template.host_ports) else (),
            quota="/".join(candidate.quota) if candidate.quota else "",
            non_preemptible=candidate.non_preemptible,
            reservation=reservation,
            plan=plan,
            attempt=candidate.object.attempt,
            is_reservation=candidate.is_reservation,
            unreadable=() if candidate.is_reservation else by_number(candidate.cls.requests, grants),
            before=before,
            uncharged=candidate.uncharged,
            surcharge=dict(candidate.surcharge),
        )
        if is_plain:
            self._made = candidate, claim
        return claim

    def _why(self, candidate: Candidate) -> tuple[Reason, ...]:
        if not self.tells:
            return explain.untold(candidate, self.nodes)
        return explain.nowhere(candidate, self.nodes, self.costs) or (explain.UNCLEAR,)

    # --- reservations ------------------------------------------------------------------------------------------------

    def _place_reserved(self, candidate: Candidate, trial: Trial, plan: str) -> Placement | tuple[Reason, ...]:
        """A place on a reservation, or the reasons against those that match; none, if it may do without one."""
        wish = candidate.wish
        if wish is None:
            return ()
        if wish.problem is not None:
            problem = wish.problem
            return (Reason(code="invalid", message=f"{problem.field}: {problem.message}", field=problem.field),)
        matching = self.reservations.matching(wish, self.capacity)
        if not matching:
            return (self.reservations.no_match(wish, self.capacity),) if wish.must else ()
        offers, reasons = usable(wish, matching, self.nodes, candidate.cls.rules.reservation_ignored)
        for offer in offers:
            if self._within is not None and not self._within[self.nodes.row(offer.holder.claim.node)]:
                continue
            found = self.draw_on(candidate, offer, plan)
            if isinstance(found, Claim):
                trial.add(found)
                return Placement(candidate, found, reservation=offer.name)
            if len(reasons) < REASONS_MAX:
                reasons.append(found)
        return tuple(reasons)

    def draw_on(self, candidate: Candidate, offer: Offer, plan: str, gone: tuple[Claim, ...] = ()) -> Claim | Reason:
        """The claim of the candidate on this reservation: what it offers first, the rest from the node; once those
        claims are `gone`."""
        cls, nodes = candidate.cls, self.nodes
        name, holder = offer.name, offer.holder
        row = nodes.row(holder.claim.node)
        hypothesis = Hypothesis(gone=(holder.offered, *gone))
        target = Target(row, hypothesis, holder.claim.uid, holder.claim.grants, offer.tracked)
        if not nodes.alive[row]:
            return Reason(code="reservation", message=f"reservation {name}: its node is gone", nodes=1)
        for constraint, query in cls.rules.in_order((*cls.asked, *candidate.asked)):
            rejection = constraint.filter(query, target)
            if rejection is not None:
                return Reason(
                    code="reservation", message=f"reservation {name}: {', '.join(rejection.reasons)}", nodes=1
                )
        if not self._admitted_beside_nominated(candidate, row):
            return Reason(
                code="reservation", message=f"reservation {name}: pods nominated to its node do not admit it", nodes=1
            )
        grants = _chosen(cls.chosen, target)
        if isinstance(grants, Rejection):
            return Reason(code="reservation", message=f"reservation {name}: {', '.join(grants.reasons)}", nodes=1)
        before = _reserved(candidate.asked, target)
        if before is None:
            return Reason(code="reservation", message=f"reservation {name}: its node does not suit the pod", nodes=1)
        return self._make_claim(candidate, row, grants, plan, holder.claim.uid, before)

    # --- gangs -------------------------------------------------------------------------------------------------------

    def _place_group(
        self, unit: Unit, trial: Trial, plan: str, placements: list[Placement], refusals: list[Refusal]
    ) -> None:
        start = len(trial.claims)
        mine: list[Placement] = []
        failed: list[Refusal] = []
        reached = dict.fromkeys(unit.needed, 0)
        gathered, done = self._gather(unit, trial, plan, mine, failed)
        for placement in mine:
            reached[unit.gang_of[placement.candidate.name]] += 1
        for candidate in unit.candidates:
            gang = unit.gang_of[candidate.name]
            if candidate.name in done:
                continue
            found = self.place(candidate, trial, plan)
            if isinstance(found, Placement):
                reached[gang] = reached.get(gang, 0) + 1
                mine.append(found)
                continue
            failed.append(Refusal(candidate, found, gang))
            left = sum(1 for other in unit.candidates if unit.gang_of[other.name] == gang)
            tried = reached.get(gang, 0) + sum(1 for refusal in failed if refusal.gang == gang)
            if reached.get(gang, 0) + left - tried < unit.needed.get(gang, 0):
                break
        missing = [gang for gang, minimum in unit.needed.items() if reached[gang] < minimum]
        if not missing:
            sizes = GangRef(name=unit.id, size=len(mine), strict=unit.strict)
            in_domain = {
                id(domain): msgspec.structs.replace(sizes, domain=domain)
                for domain in {id(each): each for each in gathered.values()}.values()
            }
            for placement in mine:
                gang_ref = in_domain.get(id(gathered.get(placement.candidate.name)), sizes)
                placements.append(Placement(placement.candidate, placement.claim, placement.reservation, gang_ref))
            refusals.extend(failed)
            return
        trial.undo(start)
        refusals.extend(self._refuse_group(unit, missing[0], mine, failed))

    def _gather(
        self, unit: Unit, trial: Trial, plan: str, placed: list[Placement], failed: list[Refusal]
    ) -> tuple[dict[Name, GangDomain], set[Name]]:
        """Place those members that ask to lie together; in which domain each has to stay, and who was looked at."""
        domains: dict[Name, GangDomain] = {}
        done: set[Name] = set()
        for gatherer in unit.candidates[0].cls.rules.gatherers if unit.candidates else ():
            for job in gatherer.jobs(unit):
                if len(job.members) < job.at_least:
                    continue  # somebody cannot be placed anywhere, who says why
                found = self._gathered(gatherer, job, trial, plan)
                reasons = (found,) if isinstance(found, Reason) else (BESIDE,)
                here = {each.candidate.name: each for each in found.placements} if isinstance(found, Gathered) else {}
                placed += here.values()
                if isinstance(found, Gathered) and found.domain is not None:
                    domains |= dict.fromkeys(here, found.domain)
                done |= {each.name for each in job.members}
                failed += [
                    Refusal(each, reasons, unit.gang_of[each.name]) for each in job.members if each.name not in here
                ]
        return domains, done

    def _gathered(self, gatherer: Gatherer, job: Job, trial: Trial, plan: str) -> Gathered | Reason:
        """What others have left for the members is theirs wherever they go."""
        nominated = self.capacity.nominated
        if not nominated:
            return gatherer.gather(job, SolverAttempt(self, trial, plan))
        for each in job.members:
            trial.release(each.name)
        with nominated.without_lower(min(each.object.template.priority for each in job.members)):
            return gatherer.gather(job, SolverAttempt(self, trial, plan))

    def _refuse_group(
        self, unit: Unit, gang: str, placed: Sequence[Placement], failed: Sequence[Refusal]
    ) -> list[Refusal]:
        blamed = next((refusal for refusal in failed if refusal.gang == gang), failed[0] if failed else None)
        needed = unit.needed[gang]
        reached = sum(1 for placement in placed if unit.gang_of[placement.candidate.name] == gang)
        message = f"gang {gang}: capacity for {reached} of {needed} members that must start together"
        tail: tuple[Reason, ...] = ()
        if blamed is not None:
            namespace, name = blamed.candidate.name
            message += f"; member {namespace}/{name} is unschedulable"
            tail = blamed.reasons if len(unit.candidates) == 1 else self._why_not_all(unit, needed, placed, blamed)
        head = Reason(code="gang", message=message)
        if not any(reason.code == "quota" for reason in tail):
            # Another member may do as well as the one that is blamed: quota that comes has to wake the gang, too.
            tail += tuple(reason for refusal in failed for reason in refusal.reasons if reason.code == "quota")[:1]
        return [Refusal(candidate, (head, *tail), unit.gang_of[candidate.name]) for candidate in unit.candidates]

    def _why_not_all(self, unit: Unit, needed: int, placed: Sequence[Placement], blamed: Refusal) -> tuple[Reason, ...]:
        """The reasons of the member that found no node, with a repair for all that lack one.

        For members that differ, or may draw on reservations, only another try would tell what helps: none is offered.
        """
        candidate, reasons, wish = blamed.candidate, blamed.reasons, blamed.candidate.wish
        cls = candidate.cls
        if cls.refusals or candidate.refusals:
            return reasons
        if any(each.code in {gatherer.name for gatherer in cls.rules.gatherers} for each in reasons):
            return reasons
        kinds = {(each.cls.index, each.quota, each.non_preemptible, each.charge_id) for each in unit.candidates}
        alike = len(kinds) == 1
        drawing = wish is not None and (wish.must or bool(self.reservations.known))
        if len(unit.needed) > 1 or not alike or drawing:
            return tuple(msgspec.structs.replace(reason, repair="") for reason in reasons)
        if candidate.quota is not None:
            together = {name: needed * amount for name, amount in candidate.charged.items()}
            refused = self.capacity.quotas.refusal(candidate.quota, together, non_preemptible=candidate.non_preemptible)
            if refused is not None:
                return (refused,)
        if not self.tells:
            return reasons
        rows = Counter(self.nodes.row(placement.claim.node) for placement in placed)
        repair = group_repair(cls, self.nodes, rows, needed - len(placed))
        return tuple(msgspec.structs.replace(each, repair=repair if each.repair else "") for each in reasons)


def alone(placement: Placement) -> Placement:
    """With what a member is decided with that joins a gang which has begun."""
    for gatherer in placement.candidate.cls.rules.gatherers if placement.candidate.asked else ():
        gang = gatherer.alone(placement)
        if gang is not None:
            return placement._replace(gang=gang)
    return placement


def _ask_alike(one: Candidate, other: Candidate) -> bool:
    """Whether what both take is the same, but for whose it is and where."""
    return (
        one.cls is other.cls
        and one.charge is other.charge
        and one.uncharged == other.uncharged
        and one.quota == other.quota
        and one.non_preemptible == other.non_preemptible
        and one.object.attempt == other.object.attempt
        and one.is_reservation == other.is_reservation
    )


def _is_handed(nomination: Nomination | None) -> bool:
    """Whether it is to the place of a placeholder, which is a reservation to its user."""
    decision = nomination.decision if nomination is not None else None
    return decision is not None and decision.eviction_reason == BY_HAND_OVER


def _reserved(asked: Iterable[Asked], target: Target) -> tuple[Step, ...] | None:
    """What has to happen before the bind, chosen by the constraints that choose something; None where one cannot."""
    steps: list[Step] = []
    for constraint, query in asked:
        if reserves(constraint):
            found = constraint.reserve(query, target)
            if isinstance(found, Rejection):
                return None
            steps += found
    return tuple(steps)


def _admitted(asked: Iterable[Asked], target: Target) -> bool:
    for constraint, query in asked:  # noqa: SIM110 - hot
        if constraint.filter(query, target) is not None:
            return False
    return True


def _chosen(choices: Iterable[Chosen], target: Target) -> tuple[Grant, ...] | Rejection:
    """What a pod is granted within the node, by all who choose something for it."""
    grants: tuple[Grant, ...] = ()
    for allocator, query in choices:
        found = allocator.choose(query, target)
        if isinstance(found, Rejection):
            return found
        grants += found.grants
        if found.zones is not None:
            target = target._replace(zones=found.zones)
    return grants
