"""Quota reclaim: what was lent comes back, and who matters more in a group goes before who matters less.

Two things may keep a pod waiting. Limits of quota: then pods leave, on whatever nodes, that count against the same
limits: those of other groups that use more than their runtime, if the pod stays within its own group's min; and those
of lower priority within its group. Or the nodes: then, within that min, pods of such other groups leave one node. The
group that is furthest over gives first, and none gives a pod when it no longer uses more than its runtime. Nobody is
chosen whom a disruption budget protects: they leave through the API server's eviction, which such a budget stops.

Why no two displace each other in turns is in docs/evictions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.giving import Giving, unprotected
from berth.placement_solver.core.displacers.lenders import Key, Lenders, Limits, Share
from berth.placement_solver.core.displacers.one_node import (
    Displacement,
    Holder,
    OneNode,
    Search,
    about_to_leave,
    helpful_rows,
    on_nodes,
)
from berth.placement_solver.core.displacers.priority import is_about_nodes
from berth.placement_solver.core.displacers.seam import Asking, Ground, Nobody, Proposal, Refused
from berth.placement_solver.core.plan import Candidate, Placement
from berth.placement_solver.core.trial import Trial
from berth.rules import preemption
from berth.rules.eviction_notes import ANYBODY
from berth.rules.preemption import BY_QUOTA, importance
from berth.rules.quota_reclaim import Charged, may_displace, may_leave_within
from berth.rules.scheduler_config import ElasticQuotaArgs
from berth.transaction.claims import Claim

NAME: Final = "ElasticQuota"
"""Koordinator's plugin."""
NODES_WANTED: Final = 100
"""So many nodes with victims are enough to choose from."""


class _Wanting(NamedTuple):
    """A pod, the group that pays for it, who leaves its tree already, who has lent what it needs, and which budgets
    protect whom."""

    candidate: Candidate
    pod: Pod
    key: Key
    leaving: tuple[Charged, ...]
    lenders: Lenders
    budgets: preemption.Budgets
    asking: Asking


class QuotaReclaim:
    """A displacer for single pods that a quota group pays for.

    `stays` says of a pod that it is nobody's victim, whatever its group.
    """

    name = NAME

    def __init__(self, ground: Ground, stays: Callable[[Pod], bool]) -> None:
        self._ground = ground
        self._quotas = ground.capacity.quotas
        self._charged = ground.charged
        self._giving = Giving(ground, stays)

    def concerns(self, refused: Refused) -> bool:
        """A pod by itself that its quota keeps waiting, or the nodes, though its group's min promises it a place."""
        candidate = refused.unit.candidates[0]
        if refused.unit.needed or candidate.quota is None or not isinstance(candidate.object, Pod):
            return False
        return is_about_quota(refused) or (is_about_nodes(refused) and self._is_promised(candidate))

    def propose(self, refused: Refused, asking: Asking) -> Proposal | Nobody:
        """Who leaves, and the place that it is for."""
        (candidate,) = refused.unit.candidates
        pod, key = candidate.object, candidate.quota
        if not isinstance(pod, Pod) or key is None or ANYBODY in asking.refused or not self._may_displace(pod, key):
            return Nobody()
        free = self._where_it_would_go(candidate, asking.plan) if is_about_quota(refused) else None
        with self._ground.nominated.heeded_by([candidate.name], pod.template.priority):
            wanting = self._wanting(candidate, pod, key, asking)
            limits = Limits(self._quotas, key[0], [Share(key, candidate.charged, candidate.non_preemptible)])
            if not limits.can_be_helped:
                return Nobody()
            there = None if free is not None else self._on_one_node(wanting)
            # Who is on the way to its node cannot be made to leave before it is there.
            nobody = Nobody(again=bool(wanting.lenders.order))
            if free is None and there is None:
                return nobody
            for each in wanting.leaving:
                limits.count(each, -1)
            if there is not None:
                wanting = wanting._replace(lenders=self._taken(wanting, there.victims, limits))
            more = self._anywhere(wanting, limits, {each.uid for each in there.victims} if there is not None else set())
        placement = free if there is None else self._ground.solver.place_under(candidate, there.target, asking.plan)
        if more is None or placement is None:
            return nobody
        victims = tuple(sorted((*(there.victims if there is not None else ()), *more), key=importance))
        displaced = there.displaced if there is not None else ()
        # Without victims it waits for those that are leaving already.
        if not victims and not displaced:
            return nobody
        return Proposal((placement,), victims, displaced, BY_QUOTA, self._giving.groups_of(victims))

    def could_have(self, refused: Refused, node: str, asking: Asking) -> bool:
        """Whether the pod could have this node once all leave whom it may make leave."""
        (candidate,) = refused.unit.candidates
        pod, key, row = candidate.object, candidate.quota, self._ground.nodes.rows.get(node)
        if not isinstance(pod, Pod) or key is None or row is None or not self._ground.nodes.alive[row]:
            return False
        with self._ground.nominated.heeded_by([candidate.name], pod.template.priority):
            return OneNode(self._search(self._wanting(candidate, pod, key, asking)), row).could_fit()

    def _is_promised(self, candidate: Candidate) -> bool:
        key = candidate.quota
        return key is not None and self._quotas.is_promised(key, candidate.of_min)

    def _may_displace(self, pod: Pod, key: Key) -> bool:
        there = self._ground.book.claims_on(pod.nominated) if pod.nominated in self._ground.nodes.rows else ()
        return may_displace(
            pod, key[1], (each for claim in there if (each := self._giving.charged_pod(claim)) is not None)
        )

    def _wanting(self, candidate: Candidate, pod: Pod, key: Key, asking: Asking) -> _Wanting:
        budgets = preemption.Budgets(self._ground.budgets(), about_to_leave(self._ground.book))
        leaving = tuple(self._giving.leaving(key[0]))
        groups = self._charged.groups(key[0]) if self._is_promised(candidate) else ()
        used = self._giving.used(key[0], leaving) if groups else {}
        lenders = Lenders(self._quotas, key[0], (name for name in groups if name != key[1]), used)
        return _Wanting(candidate, pod, key, leaving, lenders, budgets, asking)

    def _where_it_would_go(self, candidate: Candidate, plan: str) -> Placement | None:
        """Its place if no quota limited it."""
        with Trial(self._ground.capacity) as trial:
            found = self._ground.solver.place(candidate._replace(quota=None), trial, plan)
        if not isinstance(found, Placement) or candidate.quota is None:
            return None
        return found._replace(candidate=candidate, claim=found.claim._replace(quota="/".join(candidate.quota)))

    # --- on any node -------------------------------------------------------------------------------------------------

    def _anywhere(self, wanting: _Wanting, limits: Limits, leaving: set[str]) -> list[Pod] | None:
        """Who has to leave beside those that are leaving, so that no limit is exceeded; None: it does not help."""
        lenders, asked = wanting.lenders.copy(), wanting.candidate.charged
        leaving = leaving | {each.pod.uid for each in wanting.leaving}
        others = [
            each
            for group in lenders.order
            for each in self._least_important_first(self._charged.of(wanting.key[0], group), wanting, leaving)
        ]
        args = wanting.candidate.cls.rules.profile.args_of("ElasticQuota", ElasticQuotaArgs)
        keeps_default = args.disable_default_quota_preemption
        own = [
            each
            for each in self._least_important_first(self._charged.of(*wanting.key), wanting, leaving)
            if may_leave_within(wanting.pod.template.priority, wanting.key[1], each, keeps_default=keeps_default)
        ]
        chosen: list[Charged] = []
        for each in (*others, *own):
            if not limits.is_over:
                break
            is_own = each.quota == wanting.key[1]
            if limits.is_helped_by(each) and (is_own or lenders.take(each, asked)):
                limits.count(each, -1)
                chosen.append(each)
        if limits.is_over:
            return None
        victims: list[Pod] = []
        for each in sorted(chosen, key=lambda charged: importance(charged.pod)):
            limits.count(each, 1)
            if limits.is_over:
                limits.count(each, -1)
                victims.append(each.pod)
        return victims

    def _least_important_first(self, claims: Iterable[Claim], wanting: _Wanting, leaving: set[str]) -> list[Charged]:
        found = [
            each
            for claim in claims
            if claim.uid not in leaving and (each := self._giving.victim_of(claim, wanting.asking.refused)) is not None
        ]
        return unprotected(found, wanting.budgets)

    # --- on one node -------------------------------------------------------------------------------------------------

    def _on_one_node(self, wanting: _Wanting) -> Displacement | None:
        """The node from which those leave that are furthest over, of those the cheapest by kube-scheduler's rules."""
        if not wanting.lenders.order:
            return None
        search = self._search(wanting)
        rows = helpful_rows(search.asked, self._ground.nodes)
        found, _ = on_nodes(search, rows, wanting.asking.offset, NODES_WANTED)
        by_rank: dict[int, list[preemption.Candidate]] = {}
        for node, each in found.items():
            quotas = {claim.uid: claim.quota.rpartition("/")[2] for claim in self._ground.book.claims_on(node)}
            rank = max((wanting.lenders.rank(quotas[victim.uid]) for victim in each.victims), default=0)
            by_rank.setdefault(rank, []).append(preemption.Candidate(node, each.victims, each.violations))
        best = preemption.best_candidate(by_rank[min(by_rank)]) if by_rank else None
        return found[best.node] if best is not None else None

    def _search(self, wanting: _Wanting) -> Search:
        candidate = wanting.candidate
        asked = candidate.cls.rules.in_order((*candidate.cls.asked, *candidate.asked))

        def may_leave(holders: Sequence[Holder]) -> list[Pod]:
            return self._lent_on(holders, wanting)

        return Search(
            self._ground, wanting.pod, asked, wanting.budgets, may_leave, wanting.asking.refused, wanting.asking.now_s
        )

    def _lent_on(self, holders: Sequence[Holder], wanting: _Wanting) -> list[Pod]:
        """Who of a node's pods may be taken back, most important first."""
        tree = f"{wanting.key[0]}/"
        leaving = {each.pod.uid for each in wanting.leaving}
        lenders, asked = wanting.lenders.copy(), wanting.candidate.charged
        found = [
            each
            for holder in holders
            if holder.claim.quota.startswith(tree)
            and holder.pod.uid not in leaving
            and (each := self._giving.victim_of(holder.claim, wanting.asking.refused)) is not None
            and lenders.rank(each.quota) < len(lenders.order)
        ]
        least = sorted(unprotected(found, wanting.budgets), key=lambda each: lenders.rank(each.quota))
        return [each.pod for each in least if lenders.take(each, asked)][::-1]

    def _taken(self, wanting: _Wanting, victims: Sequence[Pod], limits: Limits) -> Lenders:
        """What is lent once these have left their node; `limits` counts them as gone."""
        lenders, uids = wanting.lenders.copy(), {each.uid for each in victims}
        for node in dict.fromkeys(each.node for each in victims):
            for claim in self._ground.book.claims_on(node):
                found = self._giving.charged_pod(claim) if claim.uid in uids else None
                if found is not None:
                    lenders.take(found, wanting.candidate.charged)
                    limits.count(found, -1)
        return lenders


def is_about_quota(refused: Refused) -> bool:
    """Whether limits of quota alone keep a pod from a place."""
    return all(
        each.reasons
        and all(reason.code == "quota" for reason in each.reasons)
        and not each.candidate.refusals
        and not each.candidate.cls.refusals
        for each in refused.refusals
    )
