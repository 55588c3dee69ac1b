"""Who may be made to leave for a pod that no node takes: proposed by the displacer, agreed to by the verifier.

Single pods only: members of gangs and Reservations wait for capacity that is free.
"""

from __future__ import annotations

import random as randomness
from typing import Final, NamedTuple

from berth.contracts.state import Pod
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.displacers.priority import Displacement, Nobody
from berth.placement_solver.core.displacers.turns import Turn
from berth.placement_solver.core.explain import OWN
from berth.placement_solver.core.plan import Placement, Refusal, Unit
from berth.placement_solver.core.solve import Trial
from berth.placement_solver.core.verify import Verifier
from berth.rules.eviction_notes import refused_victims
from berth.telemetry import get_logger
from berth.transaction.claims import Name

log = get_logger(__name__)

PROPOSALS_MAX: Final = 8
"""In one round: each looks at many nodes, and each that is committed changes what the next one sees."""
OFFSET_MAX: Final = 1 << 30


class Proposal(NamedTuple):
    """What a pod would take, and the way to it. Without victims it may be decided at once."""

    placement: Placement
    displacement: Displacement


class Free(NamedTuple):
    """A node takes the pod as things are by now."""


class Preempting:
    """Proposals on the view as it is."""

    def __init__(self, cluster: ClusterView, verifier: Verifier, random: randomness.Random) -> None:
        self._cluster = cluster
        self._verifier = verifier
        self._random = random

    def concerns(self, refusal: Refusal) -> bool:
        """Whether others might leave for this pod: nothing else than the nodes keeps it from them."""
        candidate = refusal.candidate
        if not isinstance(candidate.object, Pod) or candidate.refusals or candidate.cls.refusals or not refusal.reasons:
            return False
        if any(reason.code in OWN for reason in refusal.reasons):
            return False
        cluster = self._cluster
        if cluster.gangs.gang_of(candidate.name) is not None or cluster.turn(candidate.object) is not Turn.ANYHOW:
            return False
        return not self._is_waited_for(candidate.name)

    def _is_waited_for(self, name: Name) -> bool:
        """Its own victims have left, those of another pod that is nominated to the node have not: with them its own
        capacity becomes free, and nobody else has to leave."""
        cluster = self._cluster
        own = cluster.capacity.nominated.of(name)
        if own is None or own.decision is None:
            return False
        others = (each for each in cluster.capacity.nominated.on(own.claim.node) if each.name != name)
        return any(cluster.book.remaining_victims(each) for each in others)

    def propose(self, refusal: Refusal, plan: str) -> Proposal | Nobody | Free:
        """A verified proposal for a refused pod."""
        cluster = self._cluster
        unread = cluster.eviction_inputs.unread
        if unread:
            return Nobody(f"preemption: {', '.join(unread)} have not been read to their end")
        unit = cluster.renewed(Unit("", (refusal.candidate,)))
        candidate = unit.candidates[0]
        if candidate.refusals:
            return Nobody("")
        trial = Trial(cluster.capacity)
        now = cluster.solver.place(candidate, trial, plan)
        if isinstance(now, Placement):
            trial.undo()
            return Free()
        if any(reason.code in OWN for reason in now):
            return Nobody("")  # its quota was used up since it was refused
        now_s = cluster.now_ms / 1_000
        refused = refused_victims(candidate.object.template.annotations, now_s)
        found = cluster.displacer.propose(candidate, self._random.randrange(OFFSET_MAX), refused, now_s)
        nomination = cluster.capacity.nominated.of(candidate.name)
        if isinstance(found, Nobody):
            note = nomination if nomination is not None and nomination.decision is None else None
            if note is not None and not cluster.displacer.could_have(candidate, note.claim.node, now_s):
                cluster.forget_nomination(candidate.name)
            return found
        placement = cluster.solver.place_under(candidate, found.target, plan)
        if placement is None:
            return Nobody("")
        problems = self._verifier.check_nomination(placement.claim, found.victims, found.displaced)
        if problems:
            metrics.REJECTED_PLANS.inc()
            log.error(
                "the verifier rejected a nomination: it is not committed; please report this",
                plan=plan,
                problems=problems[:8],
            )
            return Nobody("")
        return Proposal(placement, found)
