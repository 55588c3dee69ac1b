"""Who may be made to leave for those that no node takes: proposed by the displacers, agreed to by the verifier."""

from __future__ import annotations

import random as randomness
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from berth.contracts.state import Pod
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.displacers.advice import Advice
from berth.placement_solver.core.displacers.registry import GATHERING, UNCONDITIONAL
from berth.placement_solver.core.displacers.seam import Asking, Displacer, Nobody, Proposal, Refused
from berth.placement_solver.core.displacers.turns import Turn
from berth.placement_solver.core.explanation.proving import PLAN, Leaving
from berth.placement_solver.core.mishaps import Mishap
from berth.placement_solver.core.plan import Candidate, Refusal, Solution, Unit
from berth.placement_solver.core.solve import alone
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.mishaps import told
from berth.placement_solver.verified import VerifiedSolver
from berth.rules.eviction_notes import refused_victims
from berth.telemetry import get_logger
from berth.transaction.claims import Name

log = get_logger(__name__)

PROPOSALS_MAX: Final = 8
"""In one round: each looks at many nodes, and each that is committed changes what the next one sees."""
OFFSET_MAX: Final = 1 << 30
LISTED_MAX: Final = 40_000
"""Each member of a gang lists all victims of the plan: so many may be listed in all, or the plan would be too large."""


class Free(NamedTuple):
    """Nodes take them as things are by now."""


class Preempting:
    """Proposals on the view as it is."""

    def __init__(
        self,
        cluster: ClusterView,
        verifier: Verifier,
        solver: VerifiedSolver,
        random: randomness.Random,
        *,
        only_unconditional: bool = False,
    ) -> None:
        """`only_unconditional`: preemption is switched off, so that those alone leave who took their place on that
        condition."""
        self._cluster = cluster
        self._only_unconditional = only_unconditional
        self._verifier = verifier
        self._solver = solver
        self._random = random
        self.drawn = 0
        """What was drawn by chance for the last proposal."""

    def concerns(self, refused: Refused) -> bool:
        """Whether others might leave for these: nothing but capacity that others have keeps it from them."""
        cluster = self._cluster
        candidates = refused.unit.candidates
        for each in candidates:
            if cluster.turn(each.object) is not Turn.ANYHOW or self._is_waited_for(each.name):
                return False
            if not refused.unit.needed and not cluster.gangs.goes_alone(each.name):
                return False
        return bool(self._displacers(refused))

    def _displacers(self, refused: Refused) -> list[Displacer]:
        candidates = refused.unit.candidates
        try:
            gathers = bool(candidates) and candidates[0].cls.rules.gathers(refused.unit)
        except Exception as error:
            told(error, unit=refused.unit.id)
            return []
        return [
            each
            for each in self._cluster.displacers
            if (not self._only_unconditional or each.name in UNCONDITIONAL)
            and (not gathers or each.name in GATHERING)
            and self._is_concerned(each, refused)
        ]

    @staticmethod
    def _is_concerned(displacer: Displacer, refused: Refused) -> bool:
        try:
            return displacer.concerns(refused)
        except Exception as error:
            told(error, displacer.name, unit=refused.unit.id)
            return False

    def _is_waited_for(self, name: Name) -> bool:
        """Its own victims have left, those of another pod that is nominated to the node have not: with them its own
        capacity becomes free, and nobody else has to leave."""
        cluster = self._cluster
        own = cluster.capacity.nominated.of(name)
        if own is None or own.decision is None:
            return False
        others = (each for each in cluster.capacity.nominated.on(own.claim.node) if each.name != name)
        return any(cluster.book.remaining_victims(each) for each in others)

    def propose(self, refused: Refused, plan: str, advice: Advice | None = None) -> Proposal | Nobody | Free:
        """A verified proposal for who was refused; `advice` answers the question of the one before."""
        cluster = self._cluster
        unread = cluster.eviction_inputs.unread
        if unread:
            return Nobody(f"preemption: {', '.join(unread)} have not been read to their end")
        unit = cluster.renewed(refused.unit)
        with Trial(cluster.capacity) as trial:
            now = self._solver.tried([unit], trial, plan)
        if isinstance(now, Mishap):
            return Nobody(f"preemption: {now.message}")
        if now.placements:
            return Free()
        refused = Refused(unit, now.refusals)
        # Its quota may have been used up since it was refused, for one.
        displacers = self._displacers(refused)
        self.drawn = self._random.randrange(OFFSET_MAX)
        asking = Asking(plan, self.drawn, self._may_not_go(unit), cluster.now_ms / 1_000, advice)
        said, again = "", False
        for displacer in displacers:
            try:
                found = displacer.propose(refused, asking)
                if isinstance(found, Proposal) and not unit.needed:
                    found = found._replace(placements=tuple(alone(each) for each in found.placements))
            except Exception as error:
                found = Nobody(f"preemption: {told(error, displacer.name, unit=unit.id).message}")
            if isinstance(found, Proposal):
                return found if self._is_agreed(found, plan) else Nobody()
            said, again = said or found.message, again or found.again
        self._forget_what_nobody_could_have(refused, displacers, asking)
        return Nobody(said, again)

    def who_would_leave(self, unit: Unit) -> Leaving | None:
        """Who would, for those that no node takes, if preemption were switched on."""
        found = self.propose(Refused(unit, ()), PLAN)
        if not isinstance(found, Proposal) or not found.victims:
            return None
        pods = tuple(sorted(f"{each.namespace}/{each.name}" for each in found.victims))
        return Leaving(pods, tuple(sorted({each.node for each in found.victims})))

    def _may_not_go(self, unit: Unit) -> frozenset[str]:
        now_s = self._cluster.now_ms / 1_000
        found: frozenset[str] = frozenset()
        for each in unit.candidates:
            obj = each.object
            annotations = obj.template.annotations if isinstance(obj, Pod) else obj.annotations
            found |= refused_victims(annotations, now_s)
        return found

    def _forget_what_nobody_could_have(self, refused: Refused, displacers: Sequence[Displacer], asking: Asking) -> None:
        """A nomination that STATE alone shows holds nothing if its pod could not have it, whoever leaves (E3)."""
        cluster = self._cluster
        for each in refused.unit.candidates if displacers else ():
            note = cluster.capacity.nominated.of(each.name)
            if note is None or note.decision is not None:
                continue
            if not any(_could_have(displacer, refused, note.claim.node, asking) for displacer in displacers):
                cluster.forget_nomination(each.name)

    def _is_agreed(self, found: Proposal, plan: str) -> bool:
        if len(found.placements) * len(found.victims) > LISTED_MAX:
            log.info("a plan would list too many victims", members=len(found.placements), victims=len(found.victims))
            return False
        claims = [placement.claim for placement in found.placements]
        try:
            problems = self._verifier.check_nomination(claims, found.victims, found.displaced, found.reason)
            spares = not problems and self._has_a_spare_victim(found)
        except Exception as error:
            told(error, "verifier", plan=plan)
            return False
        if problems:
            metrics.REJECTED_PLANS.inc()
            log.error(
                "the verifier rejected a nomination: it is not committed; please report this",
                plan=plan,
                problems=problems[:8],
            )
        return not problems and not spares

    def _has_a_spare_victim(self, found: Proposal) -> bool:
        """For a gang nobody leaves who may as well stay. What STATE alone shows of nominations holds for the solver and
        not for the verifier, so that the two may differ for a while: then the gang waits."""
        if len(found.placements) == 1:
            return False
        claims = [placement.claim for placement in found.placements]
        spare = self._verifier.spare_victim(claims, found.victims, found.displaced, found.reason)
        if spare is not None:
            log.info("a victim of a gang may as well stay: nobody leaves", victim=f"{spare.namespace}/{spare.name}")
        return spare is not None


def _could_have(displacer: Displacer, refused: Refused, node: str, asking: Asking) -> bool:
    try:
        return displacer.could_have(refused, node, asking)
    except Exception as error:
        told(error, displacer.name, unit=refused.unit.id)
        return True  # what nobody can judge goes on holding


def refused_together(units: Sequence[Unit], solution: Solution) -> Iterator[Refused]:
    """Who was refused, those together for whom others would leave together: a gang of which nobody was placed, or
    each by itself."""
    of: dict[Name, Refusal] = {refusal.candidate.name: refusal for refusal in solution.refusals}
    for unit in units:
        found = [of.pop(each.name) for each in unit.candidates if each.name in of]
        if unit.needed and len(found) == len(unit.candidates):
            yield Refused(unit, tuple(found))
        else:
            yield from (by_itself(refusal) for refusal in found)
    yield from map(by_itself, of.values())


def by_itself(refusal: Refusal) -> Refused:
    """One that was refused by itself."""
    candidate: Candidate = refusal.candidate
    return Refused(Unit(candidate.object.uid, (candidate,)), (refusal,))
