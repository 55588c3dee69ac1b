"""Reservations that wait make pods leave: of lower priority where their author has set one, or as their schedule says.

Nodes, victims and the best node are chosen as for pods (`priority`), whose plugin says by its profile whether anybody
leaves at all. Capacity that a Reservation holds is nobody's victim, so it is pods that leave, and never a Reservation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from berth.contracts.state import Pod, Reservation
from berth.placement_solver.core.displacers import priority
from berth.placement_solver.core.displacers.one_node import (
    Displacement,
    Holder,
    OneNode,
    Search,
    about_to_leave,
    helpful_rows,
    on_nodes,
)
from berth.placement_solver.core.displacers.seam import Asking, Ground, Nobody, Proposal, Refused
from berth.placement_solver.core.explain import OWN
from berth.placement_solver.core.plan import Candidate
from berth.rules import preemption
from berth.rules.eviction_notes import ANYBODY
from berth.rules.reservation_displaces import NOBODY, displaced_by, why_spared
from berth.rules.scheduler_config import PreemptionArgs
from berth.rules.scheduler_config.plugins import POST_FILTER

NAME: Final = "ReservationPreemption"


class ReservationPreemption:
    """A displacer for Reservations that no node takes. `stays` says of a pod that it is nobody's victim."""

    name = NAME

    def __init__(self, ground: Ground, stays: Callable[[Pod], bool]) -> None:
        self._ground = ground
        self._stays = stays

    def concerns(self, refused: Refused) -> bool:
        """A Reservation that may displace somebody, and which nothing but the nodes keeps from its place."""
        candidate = refused.unit.candidates[0]
        seen = candidate.object
        if not isinstance(seen, Reservation) or refused.unit.needed or displaced_by(seen) == NOBODY:
            return False
        if candidate.refusals or candidate.cls.refusals:
            return False
        if priority.NAME not in candidate.cls.rules.profile.points[POST_FILTER]:
            return False
        return all(each.reasons and not any(why.code in OWN for why in each.reasons) for each in refused.refusals)

    def propose(self, refused: Refused, asking: Asking) -> Proposal | Nobody:
        """The best node with its victims."""
        (candidate,) = refused.unit.candidates
        seen = candidate.object
        if not isinstance(seen, Reservation):
            return Nobody()
        if ANYBODY in asking.refused:
            return Nobody(f"preemption: {preemption.NOBODY_MAY_GO}")
        if not self._ground.leavers.have_below(seen.template.priority):
            return Nobody(f"preemption: {preemption.NO_VICTIMS}")
        with self._ground.nominated.heeded_by([candidate.name], seen.template.priority):
            found = self._best(candidate, seen, asking)
        if found is None:
            return Nobody(f"preemption: {preemption.NO_VICTIMS}")
        placement = self._ground.solver.place_under(candidate, found.target, asking.plan)
        return Proposal((placement,), found.victims, found.displaced) if placement is not None else Nobody()

    def could_have(self, refused: Refused, node: str, asking: Asking) -> bool:
        """Whether the Reservation could have this node once all leave whom it may make leave."""
        (candidate,), nodes = refused.unit.candidates, self._ground.nodes
        seen, row = candidate.object, nodes.rows.get(node)
        if not isinstance(seen, Reservation) or row is None or not nodes.alive[row]:
            return False
        with self._ground.nominated.heeded_by([candidate.name], seen.template.priority):
            return OneNode(self._search(candidate, seen, frozenset(), asking.now_s), row).could_fit()

    def _best(self, candidate: Candidate, seen: Reservation, asking: Asking) -> Displacement | None:
        args = candidate.cls.rules.profile.args_of(priority.NAME, PreemptionArgs)
        search = self._search(candidate, seen, asking.refused, asking.now_s)
        rows = helpful_rows(search.asked, self._ground.nodes)
        wanted = preemption.candidates_wanted(
            rows.size, args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        )
        found, _ = on_nodes(search, rows, asking.offset, wanted)
        best = preemption.best_candidate(
            preemption.Candidate(node, each.victims, each.violations) for node, each in found.items()
        )
        return found[best.node] if best is not None else None

    def _search(self, candidate: Candidate, seen: Reservation, refused: Collection[str], now_s: float) -> Search:
        def may_leave(holders: Sequence[Holder]) -> list[Pod]:
            pods = (each.pod for each in holders if not self._stays(each.pod))
            return sorted((pod for pod in pods if not why_spared(seen, pod)), key=preemption.importance)

        asked = candidate.cls.rules.in_order((*candidate.cls.asked, *candidate.asked))
        budgets = preemption.Budgets(self._ground.budgets(), about_to_leave(self._ground.book))
        return Search(self._ground, seen, asked, budgets, may_leave, refused, now_s)
