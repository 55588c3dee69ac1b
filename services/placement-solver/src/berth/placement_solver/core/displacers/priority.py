"""Priority preemption: pods of strictly lower priority leave for a pod that fits nowhere (E10).

Nodes, victims and the best node are chosen as kube-scheduler's DefaultPreemption does (`berth.rules.preemption`).
Whether the pod fits once some have left is what every constraint says under that hypothesis. Beside its victims, lower
pods' nominations to the node may give way (E2).

While a pod is looked at, the columns are charged with the nominations that it has to heed, and with no other; what is
counted of other pods is not (`core.nominated`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.seam import Asking, Ground, Nobody, Proposal, Refused
from berth.placement_solver.core.explain import OWN
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.registry import Asked
from berth.placement_solver.core.seams import Depends, Hypothesis, Rejection, RowArray, Target
from berth.rules import preemption
from berth.rules.eviction_notes import ANYBODY
from berth.rules.scheduler_config import PreemptionArgs
from berth.rules.scheduler_config.plugins import POST_FILTER
from berth.transaction.claims import Claim
from berth.transaction.nominations import Nomination

NAME: Final = "DefaultPreemption"
"""kube-scheduler's plugin, by which profiles call it."""


class Displacement(NamedTuple):
    """Where the pod could go once `victims` (most important first) have left and `displaced` nominations gave way.

    `target` is the node under that hypothesis; `violations` counts the victims that a disruption budget protects.
    """

    target: Target
    victims: tuple[Pod, ...]
    displaced: tuple[Nomination, ...] = ()
    violations: int = 0


class PriorityPreemption:
    """A displacer for single pods that no node takes, if their profile has the plugin.

    `stays` says of a pod that it is nobody's victim, whatever its priority.
    """

    name = NAME

    def __init__(self, ground: Ground, stays: Callable[[Pod], bool]) -> None:
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
        with self._nominated.heeded_by(candidate.name, pod.template.priority):
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
        budgets = preemption.Budgets(self._budgets(), self._about_to_leave())
        wanted = preemption.candidates_wanted(
            rows.size, args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        )
        found: dict[str, Displacement] = {}
        reasons: Counter[str] = Counter()
        is_gentle = False
        for row in np.roll(rows, -offset % rows.size if rows.size else 0).tolist():
            trial = _Trial(self, pod, asked, row, now_s, refused)
            proposal = trial.victims(budgets)
            if isinstance(proposal, Displacement):
                found[self._nodes.names[row]] = proposal
                is_gentle = is_gentle or not proposal.violations
                if len(found) >= wanted and is_gentle:
                    break
            else:
                reasons.update(proposal.reasons)
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
        with self._nominated.heeded_by(candidate.name, pod.template.priority):
            return _Trial(self, pod, asked, row, now_s).could_fit()

    def _about_to_leave(self) -> Iterator[Pod]:
        """The victims of standing nominations, as far as they are there: budgets are spent on them."""
        for nomination in self._book.nominations:
            for victim in self._book.remaining_victims(nomination):
                pod = self._book.pods.get((victim.namespace, victim.name))
                if pod is not None and pod.uid == victim.uid:
                    yield pod

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


class _Trial:
    """One pod on one node, while the columns are charged with what it has to heed."""

    def __init__(
        self,
        owner: PriorityPreemption,
        pod: Pod,
        asked: Sequence[Asked],
        row: int,
        now_s: float,
        refused: Collection[str] = frozenset(),
    ) -> None:
        self._pod = pod
        self._asked = asked
        self._row = row
        self._book = owner._book
        self._node = owner._nodes.names[row]
        self._unheeded: list[Claim] = []
        self._held: list[Claim] = []
        self._lower: list[Nomination] = []
        for each in owner._nominated.on(self._node):
            is_lower = each.priority < pod.template.priority
            if each.name == (pod.namespace, pod.name) or (is_lower and each.decision is None):
                self._unheeded.append(each.claim)
            elif is_lower:
                self._lower.append(each)
            else:
                self._held.append(each.claim)
        self._claims: dict[str, Claim] = {}
        holders: list[Pod] = []
        for claim in self._book.claims_on(self._node):
            holder = self._book.pods.get(claim.name)
            # Who draws on a reservation stays: its capacity is the reservation's.
            if holder is None or not claim.is_bound or claim.reservation or owner._stays(holder):
                continue
            if holder.uid in refused or preemption.never_leaves(holder, now_s):
                continue
            holders.append(holder)
            self._claims[holder.uid] = claim
        self._potential = preemption.lower_than(pod.template.priority, holders)

    def victims(self, budgets: preemption.Budgets) -> Displacement | Rejection:
        """Who has to leave; or why it does not help that all lower ones do."""
        yielding = [each for each in self._lower if self._gives_way(each, self._potential)]
        if not self._potential and not yielding:
            return Rejection((preemption.NO_VICTIMS,), resolvable=False)
        found = self._choose(yielding, budgets)
        if isinstance(found, Displacement):
            leaving = [each for each in found.displaced if not self._gives_way(each, found.victims)]
            if not leaving:
                return found
            found = self._choose([each for each in yielding if each not in leaving], budgets)
            if isinstance(found, Displacement) and any(not self._gives_way(n, found.victims) for n in found.displaced):
                return Rejection((preemption.NO_VICTIMS,), resolvable=False)
        return found

    def could_fit(self) -> bool:
        """Whether it fits when every lower pod, and every lower nomination, is gone."""
        return self._rejection(self._potential, [each.claim for each in self._lower]) is None

    def _gives_way(self, nomination: Nomination, victims: Iterable[Pod]) -> bool:
        """Whether all its other victims have left or are leaving (E2)."""
        mine = {victim.uid for victim in victims}
        return all(victim.uid in mine for victim in self._book.staying_victims(nomination))

    def _choose(self, yielding: Sequence[Nomination], budgets: preemption.Budgets) -> Displacement | Rejection:
        given = [each.claim for each in yielding]

        def fits(gone: Collection[Pod]) -> bool:
            return self._rejection(gone, given) is None

        chosen = preemption.victims_on(self._node, self._potential, budgets, fits)
        if chosen is None:
            return self._rejection(self._potential, given) or Rejection((preemption.NOT_HELPFUL,))
        # Of the nominations, too, those that can stay do, the more important first.
        for each in sorted(yielding, key=lambda nomination: (-nomination.priority, nomination.name)):
            rest = [claim for claim in given if claim is not each.claim]
            if self._rejection(chosen.victims, rest) is None:
                given = rest
        displaced = tuple(each for each in yielding if any(each.claim is claim for claim in given))
        if not chosen.victims and not displaced:
            # It fits as it is: nothing has to be made free for it.
            return Rejection((preemption.NOT_HELPFUL,))
        # Later the columns are charged with all nominations again.
        hypothesis = self._hypothesis(chosen.victims, (*given, *self._unheeded))
        return Displacement(Target(self._row, hypothesis), chosen.victims, displaced, chosen.violations)

    def _hypothesis(self, gone: Iterable[Pod], given: Sequence[Claim]) -> Hypothesis:
        return Hypothesis(gone=(*(self._claims[each.uid] for each in gone), *given))

    def _rejection(self, gone: Iterable[Pod], given: Sequence[Claim]) -> Rejection | None:
        """With the nominations of equal and higher pods, and without them: both have to let the pod in."""
        charged = self._hypothesis(gone, given)
        counted = Hypothesis(gone=tuple(self._claims[each.uid] for each in gone), there=tuple(self._held))
        found = self._first_rejection(charged, counted)
        if found is None and self._held:
            without = charged._replace(gone=(*charged.gone, *self._held))
            found = self._first_rejection(without, counted._replace(there=()))
        return found

    def _first_rejection(self, charged: Hypothesis, counted: Hypothesis) -> Rejection | None:
        """Nominations are charged, but not counted among the pods of the cluster."""
        for constraint, query in self._asked:
            hypothesis = counted if Depends.PEERS in constraint.depends else charged
            rejection = constraint.filter(query, Target(self._row, hypothesis))
            if rejection is not None:
                return rejection
        return None


def is_about_nodes(refused: Refused) -> bool:
    """Whether nodes alone keep a pod from a place, and no more than they."""
    for candidate, reasons, *_ in refused.refusals:
        if not isinstance(candidate.object, Pod) or candidate.refusals or candidate.cls.refusals or not reasons:
            return False
        if any(reason.code in OWN for reason in reasons):
            return False
    return True


def helpful_rows(asked: Iterable[Asked], nodes: Nodes) -> RowArray:
    """The nodes whose first rejecting constraint says that it may help when others leave."""
    rows = np.flatnonzero(nodes.alive[: len(nodes)])
    helpful: list[RowArray] = []
    for constraint, query in asked:
        rejected = np.zeros(rows.shape, np.bool_)
        hopeless = np.zeros(rows.shape, np.bool_)
        for each in constraint.rejections(query, rows):
            rejected |= each.rows
            if not each.resolvable:
                hopeless |= each.rows
        helpful.append(rows[rejected & ~hopeless])
        rows = rows[~rejected]
    return np.sort(np.concatenate(helpful)) if helpful else rows[:0]
