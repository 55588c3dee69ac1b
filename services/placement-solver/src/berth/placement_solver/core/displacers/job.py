"""Job preemption: pods of strictly lower priority leave for a gang that fits nowhere, for all its members or for none.

Whom it costs least to make leave is worked out on amounts (`berth.rules.job_preemption`). Then the victims are lifted
from the live columns and each member is placed on its node by everything that a node is asked; a node that does not
take its members after all is left out, and the plan is made anew.

A pod by itself is a job of one: it is asked about here when priority preemption has found nobody, since strict gangs
leave whole for either.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from berth.contracts.ledger import GangRef
from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.advice import JobQuestion
from berth.placement_solver.core.displacers.gathered import gathered_draft
from berth.placement_solver.core.displacers.job_parts import Part, Standing, UnitsOn, lifted, parts_of
from berth.placement_solver.core.displacers.job_problem import (
    Writer,
    Written,
    classes_of,
    drafted,
    question_of,
    write_problem,
)
from berth.placement_solver.core.displacers.one_node import about_to_leave
from berth.placement_solver.core.displacers.priority import NAME as PLUGIN
from berth.placement_solver.core.displacers.removable import LeavingUnit, Removable, protected_by_budgets
from berth.placement_solver.core.displacers.seam import Asking, Ground, Nobody, Proposal, Refused
from berth.placement_solver.core.explain import OWN
from berth.placement_solver.core.gatherers.seam import Gatherer
from berth.placement_solver.core.plan import Candidate, Placement, Unit
from berth.placement_solver.core.seams import Mask
from berth.placement_solver.core.trial import Trial
from berth.rules import preemption
from berth.rules.eviction_notes import ANYBODY
from berth.rules.job_preemption.first import first_plan
from berth.rules.job_preemption.problem import JobPlan
from berth.rules.scheduler_config.plugins import POST_FILTER

NODES_MAX: Final = 4_000
"""So many nodes are looked at for one job, from another one on each time."""
TRIES_MAX: Final = 4
WITH_RESERVATIONS: Final = "nobody leaves for gangs of which a Reservation waits"
GANG: Final = "gang"
"""The code of the reason that stands before those of the member that found no node."""


class Places(NamedTuple):
    """A place for each member, and who leaves for that; `question`: there may be a cheaper plan."""

    placements: tuple[Placement, ...]
    units: tuple[LeavingUnit, ...]
    question: JobQuestion | None


class JobPreemption:
    """A displacer for gangs, and for single pods after priority preemption."""

    name = "JobPreemption"

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def concerns(self, refused: Refused) -> bool:
        """Nothing but the nodes keeps them from a place, and their profile preempts."""
        for candidate, reasons, *_ in refused.refusals:
            if not (isinstance(candidate.object, Pod) or refused.unit.needed):
                return False
            if candidate.refusals or candidate.cls.refusals:
                return False
            if PLUGIN not in candidate.cls.rules.profile.points[POST_FILTER]:
                return False
            codes = {reason.code for reason in reasons} - ({GANG} if refused.unit.needed else set())
            if not codes or codes & OWN:
                return False
        return True

    def propose(self, refused: Refused, asking: Asking) -> Proposal | Nobody:
        """Places for all members that wait, or else for those that the gang needs, and who leaves for that."""
        unit = refused.unit
        lowest = min(candidate.object.template.priority for candidate in unit.candidates)
        needed = needed_of(unit)
        if len(needed) < sum(unit.needed.values()):
            return Nobody()  # the others have to come first
        if any(candidate.is_reservation for candidate in unit.candidates):
            return Nobody(f"preemption: {WITH_RESERVATIONS}")
        why_not = self.why_not(unit, asking)
        if why_not:
            return Nobody(f"preemption: {why_not}")
        if not self._ground.leavers.have_below(lowest):
            return Nobody(f"preemption: {preemption.NO_VICTIMS}")
        with self._ground.nominated.heeded_by([each.name for each in unit.candidates], lowest):
            found = self._for_members(unit, unit.candidates, lowest, asking)
            if found is None and 0 < len(needed) < len(unit.candidates):
                found = self._for_members(unit, needed, lowest, asking)
        return found or Nobody(f"preemption: {preemption.NOT_HELPFUL}")

    def could_have(self, refused: Refused, node: str, asking: Asking) -> bool:
        """Whether a member could have this node once all leave whom it may make leave."""
        candidates = refused.unit.candidates
        row = self._ground.nodes.rows.get(node)
        lowest = min(candidate.object.template.priority for candidate in candidates)
        removable = Removable(self._ground, lowest, asking.refused, asking.now_s, ())
        with self._ground.nominated.heeded_by([each.name for each in candidates], lowest):
            return row is not None and self.could_take(row, candidates, removable.units_on([node]))

    def could_take(self, row: int, candidates: Sequence[Candidate], units: Sequence[LeavingUnit]) -> bool:
        """Whether a node could have one of them once all these units have left."""
        for each, *_ in classes_of(candidates):
            able = self._able(each)
            if not able[row]:
                continue
            only = np.zeros_like(able)
            only[row] = True
            written = write_problem([(each,)], [only], self._ground.nodes, units, frozenset())
            if first_plan(written.problem) is not None:
                return True
        return False

    def why_not(self, unit: Unit, asking: Asking) -> str:
        """Why nobody may be made to leave for them; empty: somebody may."""
        if ANYBODY in asking.refused:
            return preemption.NOBODY_MAY_GO
        for candidate in unit.candidates:
            pod, book = candidate.object, self._ground.book
            if not isinstance(pod, Pod):
                return preemption.NOT_HELPFUL
            there = (book.pods.get(claim.name) for claim in book.claims_on(pod.nominated) if claim.is_bound)
            row = self._ground.nodes.rows.get(pod.nominated)
            is_unresolvable = row is None or not self._able(candidate)[row]
            why = preemption.why_not_eligible(
                pod, (each for each in there if each is not None), is_nominated_unresolvable=is_unresolvable
            )
            if why:
                return why
        return ""

    def _for_members(self, unit: Unit, candidates: Sequence[Candidate], lowest: int, asking: Asking) -> Proposal | None:
        leaving_already = list(about_to_leave(self._ground.book))
        uids = {pod.uid for pod in leaving_already}
        removable = Removable(self._ground, lowest, asking.refused, asking.now_s, uids)
        budgets = preemption.Budgets(self._ground.budgets(), leaving_already)
        found = self.places_for(unit, candidates, removable.units_on, budgets, asking)
        if found is None:
            return None
        return Proposal(found.placements, victims_of(found.units), question=found.question)

    def places_for(
        self,
        unit: Unit,
        candidates: Sequence[Candidate],
        units_on: UnitsOn,
        budgets: preemption.Budgets,
        asking: Asking,
    ) -> Places | None:
        """Places for these members of the unit, and who leaves for that; `units_on` gives who might leave nodes."""
        parts = parts_of(unit, candidates)
        if len(parts) == 1:
            return self._places_of(unit, parts[0], units_on, budgets, asking)
        found: list[Places] = []
        unadvised = asking._replace(advice=None)
        with Standing(self._ground.capacity) as standing:
            for part in parts:
                places = self._places_of(unit, part, standing.others_on(units_on), budgets, unadvised)
                if places is None:
                    return None
                found.append(places)
                standing.add(places.placements, places.units)
                budgets = budgets.once_about_to_leave(victims_of(places.units))
        placements = _as_one(unit, [each for places in found for each in places.placements])
        units = [standing.whole(each) for places in found for each in places.units]
        placements, units = self._without_spare(unit, placements, units, asking.plan)
        return Places(placements, tuple(units), None)

    def _places_of(
        self, unit: Unit, part: Part, units_on: UnitsOn, budgets: preemption.Budgets, asking: Asking
    ) -> Places | None:
        """The same for members that are one job."""
        candidates, together = part
        members = classes_of(candidates)
        able = [self._some(self._able(each[0]), asking.offset) for each in members]
        nodes = self._ground.nodes
        rows = np.flatnonzero(np.logical_or.reduce(able))
        if not rows.size:
            return None
        units = units_on(nodes.names[row] for row in rows.tolist())
        writer = Writer(tuple(members), nodes, tuple(units), protected_by_budgets(units, budgets))
        for _ in range(TRIES_MAX):
            if together is not None:
                draft = gathered_draft(together, writer, able, asking.advice)
            else:
                draft = drafted(writer.write(able), nodes, asking.advice)
            if draft is None:
                return None
            written, plan, is_open = draft
            leaving = tuple(written.units[at] for at in plan.units)
            found = self._placed(unit, written, plan, leaving, asking.plan)
            if not isinstance(found, int):
                if together is not None:
                    found = _gathered(found, together.gatherer)
                return Places(found, leaving, question_of(written, plan, nodes.names) if is_open else None)
            kind, row = divmod(found, len(nodes))
            able[kind] = able[kind].copy()
            able[kind][row] = False
        return None

    def _placed(
        self, unit: Unit, written: Written, plan: JobPlan, leaving: Iterable[LeavingUnit], name: str
    ) -> tuple[Placement, ...] | int:
        """The members on their nodes, judged exactly once those have left; or class and row that do not go together."""
        capacity, solver = self._ground.capacity, self._ground.solver
        # What victims use of their quota is free when they have left, and not before.
        gone = lifted(leaving)
        trial = Trial(capacity)
        for claim in gone:
            capacity.apply(claim, -1)
        try:
            placements: list[Placement] = []
            for kind, (candidates, counts) in enumerate(zip(written.members, plan.places, strict=True)):
                rows = [int(written.rows[at]) for at in np.flatnonzero(counts).tolist() for _ in range(int(counts[at]))]
                for candidate, row in zip(candidates, rows, strict=True):
                    found = solver.place_on(candidate, row, trial, name)
                    if found is None:
                        return kind * len(self._ground.nodes) + row
                    placements.append(found)
            order = {candidate.name: at for at, candidate in enumerate(unit.candidates)}
            placements.sort(key=lambda placement: order[placement.candidate.name])
            if not unit.needed:
                return tuple(placements)
            gang = GangRef(name=unit.id, size=len(placements), strict=unit.strict)
            return tuple(placement._replace(gang=gang) for placement in placements)
        finally:
            trial.undo()
            for claim in gone:
                capacity.apply(claim, 1)

    def _without_spare(
        self, unit: Unit, placements: tuple[Placement, ...], units: list[LeavingUnit], plan: str
    ) -> tuple[tuple[Placement, ...], list[LeavingUnit]]:
        """The same members on the same nodes, and who of those that leave has to: the largest units are tried first."""
        with Standing(self._ground.capacity) as standing:
            standing.add((), units)
            for each in sorted(units, key=lambda one: -len(one.everybody)):
                others = [one for one in units if one is not each]
                alone = lifted([each], {leaver.pod.uid for one in others for leaver in one.everybody})
                standing.put_back(alone)
                again = self._placed_again(placements, {claim.node for claim in alone}, plan)
                if again is None:
                    standing.lift(alone)
                else:
                    placements, units = _as_one(unit, again), others
        return placements, units

    def _placed_again(
        self, placements: Iterable[Placement], first: Container[str], plan: str
    ) -> list[Placement] | None:
        """The same on the same nodes, with what they are granted there now; None: not all of them have a place. Nodes
        that are not as they were come first, since the others mostly still do."""
        found: list[Placement] = []
        with Trial(self._ground.capacity) as trial:
            for each in sorted(placements, key=lambda one: one.claim.node not in first):
                row = self._ground.nodes.row(each.claim.node)
                placement = self._ground.solver.place_on(each.candidate, row, trial, plan)
                if placement is None:
                    return None
                found.append(placement._replace(gang=each.gang))
        return found

    def _able(self, candidate: Candidate) -> Mask:
        """The nodes that nothing rules out for it but what others hold."""
        nodes = self._ground.nodes
        able: Mask = nodes.alive[: len(nodes)].copy()
        for constraint, query in (*candidate.cls.asked, *candidate.asked):
            rows = np.flatnonzero(able)
            for each in constraint.rejections(query, rows):
                if not each.resolvable:
                    able[rows[each.rows]] = False
        return able

    def _some(self, able: Mask, offset: int) -> Mask:
        rows = np.flatnonzero(able)
        if rows.size <= NODES_MAX:
            return able
        some: Mask = np.zeros_like(able)
        some[np.roll(rows, -offset % rows.size)[:NODES_MAX]] = True
        return some


def victims_of(units: Iterable[LeavingUnit]) -> tuple[Pod, ...]:
    """All who leave with these units, most important first."""
    pods = {each.pod.uid: each.pod for unit in units for each in unit.everybody}
    return tuple(sorted(pods.values(), key=preemption.importance))


def _as_one(unit: Unit, placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """The members of all parts in their order, begun as one gang."""
    order = {candidate.name: at for at, candidate in enumerate(unit.candidates)}
    found = sorted(placements, key=lambda placement: order[placement.candidate.name])
    return tuple(
        each._replace(gang=replace(each.gang, size=len(found))) if each.gang is not None else each for each in found
    )


def _gathered(placements: Sequence[Placement], gatherer: Gatherer) -> tuple[Placement, ...]:
    """With the domain in which all of them have to stay."""
    alone = gatherer.alone(placements[0])
    if alone is None:
        return tuple(placements)
    return tuple(
        each._replace(gang=replace(each.gang, domain=alone.domain)) if each.gang is not None else each
        for each in placements
    )


def needed_of(unit: Unit) -> list[Candidate]:
    """The first members of each gang, as many as it needs to begin."""
    left = dict(unit.needed)
    found = []
    for candidate in unit.candidates:
        gang = unit.gang_of.get(candidate.name, "")
        if left.get(gang, 0) > 0:
            left[gang] -= 1
            found.append(candidate)
    return found
