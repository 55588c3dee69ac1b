"""Priority preemption: pods of strictly lower priority leave for a pod that fits nowhere (E10).

Nodes, victims and the best node are chosen as kube-scheduler's DefaultPreemption does (`berth.rules.preemption`).
What becomes of one node is `one_node`'s to say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np

from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.one_node import (
    Displacement,
    Holder,
    MayLeave,
    OneNode,
    Search,
    about_to_leave,
    helpful_rows,
    on_nodes,
)
from berth.placement_solver.core.displacers.seam import Asking, Ground, Nobody, Proposal, Refused
from berth.placement_solver.core.explain import OWN
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.seams import RowArray
from berth.rules import preemption
from berth.rules.eviction_notes import ANYBODY
from berth.rules.scheduler_config import PreemptionArgs
from berth.rules.scheduler_config.plugins import POST_FILTER

NAME: Final = "DefaultPreemption"
"""kube-scheduler's plugin, by which profiles call it."""


class PriorityPreemption:
    """A displacer for single pods that no node takes, if their profile has the plugin.

    `stays` says of a pod that it is nobody's victim, whatever its priority.
    """

    name = NAME

    def __init__(self, ground: Ground, stays: Callable[[Pod], bool]) -> None:
        self._ground = ground
        self._nodes = ground.nodes
        self._book = ground.book
        self._nominated = ground.nominated
        self._budgets = ground.budgets
        self._solver = ground.solver
        self._stays = stays
        self._have_lower = ground.leavers.have_below

    def concerns(self, refused: Refused) -> bool:
        """A pod by itself, which nothing but the nodes keeps from them."""
        return not refused.unit.needed and is_about_nodes(refused)

    def propose(self, refused: Refused, asking: Asking) -> Proposal | Nobody:
        """The best node with its victims."""
        (candidate,) = refused.unit.candidates
        found = self.choose(candidate, asking.offset, asking.refused, asking.now_s)
        if isinstance(found, Nobody):
            return found
        placement = self._solver.place_under(candidate, found.target, asking.plan)
        return Proposal((placement,), found.victims, found.displaced) if placement is not None else Nobody()

    def choose(
        self, candidate: Candidate, offset: int = 0, refused: Collection[str] = frozenset(), now_s: float = 0.0
    ) -> Displacement | Nobody:
        """The best node with its victims; nodes are tried from the `offset`-th on that eviction may help with.

        `refused` are the uids of those whom the API server did not let go for it of late, `now_s` is unix time: who
        should have left long before is not chosen again (E7).
        """
        pod, profile = candidate.object, candidate.cls.rules.profile
        if not isinstance(pod, Pod) or NAME not in profile.points[POST_FILTER]:
            return Nobody()
        with self._nominated.heeded_by([candidate.name], pod.template.priority):
            return self._propose(candidate, pod, offset, refused, now_s)

    def _propose(
        self, candidate: Candidate, pod: Pod, offset: int, refused: Collection[str], now_s: float
    ) -> Displacement | Nobody:
        profile = candidate.cls.rules.profile
        args = profile.args_of(NAME, PreemptionArgs)
        asked = candidate.cls.rules.in_order((*candidate.cls.asked, *candidate.asked))
        rows = helpful_rows(asked, self._nodes)
        why_not = self._why_not(pod, rows)
        if not why_not and ANYBODY in refused:
            why_not = preemption.NOBODY_MAY_GO
        if why_not:
            return Nobody(f"preemption: {why_not}")
        if not self._have_lower(pod.template.priority):
            # Who is of the lowest priority is refused without a look at each node.
            return self._nobody(rows, {preemption.NO_VICTIMS: rows.size})
        budgets = preemption.Budgets(self._budgets(), about_to_leave(self._book))
        wanted = preemption.candidates_wanted(
            rows.size, args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        )
        found, reasons = on_nodes(
            Search(self._ground, pod, asked, budgets, self._lower_than(pod), refused, now_s), rows, offset, wanted
        )
        best = preemption.best_candidate(
            preemption.Candidate(node, each.victims, each.violations) for node, each in found.items()
        )
        if best is not None:
            return found[best.node]
        return self._nobody(rows, reasons)

    def could_have(self, refused: Refused, node: str, asking: Asking) -> bool:
        """Whether the pod could have this node once all leave whom it may make leave."""
        (candidate,), now_s = refused.unit.candidates, asking.now_s
        pod, row = candidate.object, self._nodes.rows.get(node)
        if not isinstance(pod, Pod) or row is None or not self._nodes.alive[row]:
            return False
        asked = candidate.cls.rules.in_order((*candidate.cls.asked, *candidate.asked))
        with self._nominated.heeded_by([candidate.name], pod.template.priority):
            budgets = preemption.Budgets()
            search = Search(self._ground, pod, asked, budgets, self._lower_than(pod), frozenset(), now_s)
            return OneNode(search, row).could_fit()

    def _lower_than(self, pod: Pod) -> MayLeave:
        def lower(holders: Sequence[Holder]) -> list[Pod]:
            return preemption.lower_than(
                pod.template.priority, (each.pod for each in holders if not self._stays(each.pod))
            )

        return lower

    def _nobody(self, helpful: RowArray, reasons: Mapping[str, int]) -> Nobody:
        alive = int(np.count_nonzero(self._nodes.alive))
        not_helped = reasons.get(preemption.NOT_HELPFUL, 0) + alive - helpful.size
        return Nobody(preemption.explanation(alive, {**reasons, preemption.NOT_HELPFUL: not_helped}))

    def _why_not(self, pod: Pod, helpful: RowArray) -> str:
        row = self._nodes.rows.get(pod.nominated, -1)
        there = (self._book.pods.get(claim.name) for claim in self._book.claims_on(pod.nominated))
        return preemption.why_not_eligible(
            pod,
            (other for other in there if other is not None and other.node == pod.nominated),
            is_nominated_unresolvable=row not in helpful,
        )


def is_about_nodes(refused: Refused) -> bool:
    """Whether nodes alone keep a pod from a place, and no more than they."""
    for candidate, reasons, *_ in refused.refusals:
        if not isinstance(candidate.object, Pod) or candidate.refusals or candidate.cls.refusals or not reasons:
            return False
        if any(reason.code in OWN for reason in reasons):
            return False
    return True
