"""Placeholders hand their places over: pods that run in the place of a Reservation leave for a pod of their owners.

Whatever is configured about preemption: a placeholder runs on that condition, and priority does not count. A kubelet
counts both pods, so the user is nominated, the placeholder leaves, and the user is bound once it is gone. Who finds a
place otherwise, or on a Reservation, leaves placeholders alone. A placeholder is no user of another one, and what it
leaves goes to its user, so no two displace each other in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.seam import Asking, Ground, Nobody, Proposal, Refused
from berth.placement_solver.core.plan import Candidate, Placement
from berth.placement_solver.core.seams import Hypothesis, Target
from berth.rules import preemption
from berth.rules.eviction_notes import ANYBODY
from berth.rules.preemption import BY_HAND_OVER, NEVER
from berth.rules.reservation_operating import is_placeholder, why_not_handed_over
from berth.transaction.claims import Claim

NAME: Final = "OperatingPods"
TRIED_MAX: Final = 64
"""So many placeholders that may be meant are looked at for one pod."""


class HandOver:
    """A displacer for single pods. `stays` says of a pod that it is nobody's victim."""

    name = NAME

    def __init__(self, ground: Ground, stays: Callable[[Pod], bool]) -> None:
        self._ground = ground
        self._placeholders = ground.placeholders
        self._stays = stays

    def concerns(self, refused: Refused) -> bool:
        """A pod by itself that a placeholder may be meant for, and that nothing of its own keeps waiting."""
        if refused.unit.needed:
            return False
        (candidate,) = refused.unit.candidates
        pod = candidate.object
        if not isinstance(pod, Pod) or pod.template.preemption_policy == NEVER:
            return False
        if candidate.cls.refusals or candidate.refusals or is_placeholder(pod.template.labels):
            return False
        return bool(self._placeholders.may_serve(pod))

    def propose(self, refused: Refused, asking: Asking) -> Proposal | Nobody:
        """The first placeholder, by name, beside whose place the pod fits."""
        (candidate,) = refused.unit.candidates
        pod = candidate.object
        if not isinstance(pod, Pod) or ANYBODY in asking.refused or self._is_kept_by_others(candidate):
            return Nobody()
        with self._ground.nominated.heeded_by((candidate.name,), pod.template.priority):
            for placeholder, claim in self._holders(pod, asking):
                placement = self._instead_of(candidate, claim, asking.plan)
                if placement is not None:
                    return Proposal((placement,), (placeholder,), reason=BY_HAND_OVER)
        return Nobody()

    def could_have(self, refused: Refused, node: str, asking: Asking) -> bool:
        """Whether a placeholder of this node has enough for the pod."""
        (candidate,) = refused.unit.candidates
        pod = candidate.object
        if not isinstance(pod, Pod):
            return False
        with self._ground.nominated.heeded_by((candidate.name,), pod.template.priority):
            return any(
                claim.node == node and self._instead_of(candidate, claim, asking.plan) is not None
                for _, claim in self._holders(pod, asking)
            )

    def _is_kept_by_others(self, candidate: Candidate) -> bool:
        """Quota that keeps it waiting is not freed by placeholders."""
        quota = candidate.quota
        return quota is not None and bool(
            self._ground.capacity.quotas.refusal(quota, candidate.charged, non_preemptible=candidate.non_preemptible)
        )

    def _holders(self, pod: Pod, asking: Asking) -> Iterator[tuple[Pod, Claim]]:
        """Placeholders that hand over to the pod, with what they hold."""
        ground = self._ground
        leaving = {victim.uid for each in ground.book.nominations for victim in each.victims}
        for name in self._placeholders.may_serve(pod)[:TRIED_MAX]:
            placeholder = ground.book.pods.get(name)
            row = ground.nodes.rows.get(placeholder.node) if placeholder is not None else None
            if placeholder is None or row is None or not ground.nodes.alive[row] or placeholder.uid in leaving:
                continue
            if placeholder.uid in asking.refused or preemption.never_leaves(placeholder, asking.now_s):
                continue
            if preemption.why_protected(placeholder) or self._stays(placeholder):
                continue
            node = ground.nodes.states[row]
            if node is None or why_not_handed_over(placeholder, pod, node.labels):
                continue
            for claim in ground.book.claims_of(name):
                # What is drawn from a Reservation falls back to that.
                if claim.uid == placeholder.uid and claim.is_bound and not claim.reservation and not claim.loans:
                    yield placeholder, claim

    def _instead_of(self, candidate: Candidate, claim: Claim, plan: str) -> Placement | None:
        solver = self._ground.solver
        target = Target(self._ground.nodes.row(claim.node), Hypothesis(gone=(claim,)))
        return solver.place_under(candidate.served, target, plan) if solver.admits(candidate, target) else None
