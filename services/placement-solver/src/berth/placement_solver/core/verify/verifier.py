"""A plan is checked once more before it is committed, by rules that share no computation with the solver.

Every check starts from the holders themselves (bound objects and unsettled decisions) and from the messages of STATE,
INVENTORY, QUOTA and RESERVATION. The columns, slots and tallies that the solver works with are never read, so that a
slip in them shows here and nowhere else. The cost grows with the holders of the nodes that a plan touches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager

from berth.contracts import names
from berth.contracts.state import Pod
from berth.placement_solver.core.verify.gangs import by_gang, gang_problems
from berth.placement_solver.core.verify.grants import Place, Wish, wish_of
from berth.placement_solver.core.verify.growths import growth_problems
from berth.placement_solver.core.verify.hand_overs import hand_over_problems, is_handed_over
from berth.placement_solver.core.verify.laws.inter_pod_affinity import affinity_problems
from berth.placement_solver.core.verify.laws.load_aware_scheduling import LoadLaw
from berth.placement_solver.core.verify.laws.network_topology import network_problems
from berth.placement_solver.core.verify.laws.offers import lent_problems
from berth.placement_solver.core.verify.laws.placed_pods import PlacedPods
from berth.placement_solver.core.verify.laws.pod_topology_spread import spread_problems
from berth.placement_solver.core.verify.laws.quota_tree import tree_problems
from berth.placement_solver.core.verify.laws.volumes import volume_problems
from berth.placement_solver.core.verify.node import NodeCheck
from berth.placement_solver.core.verify.nominations import (
    displaced_problems,
    nominated_beside,
    turn_problems,
    units_of,
    victim_gang_problems,
    victim_problems,
)
from berth.placement_solver.core.verify.objects import object_problems
from berth.placement_solver.core.verify.quotas import QuotaTallies
from berth.placement_solver.core.verify.reclaims import held_by, leaving_of, reclaim_problems
from berth.placement_solver.core.verify.reservations import draw_problems, loan_problems
from berth.placement_solver.core.verify.revocations import revocation_problems
from berth.placement_solver.core.verify.take_overs import as_users, take_over_problems
from berth.placement_solver.core.verify.view import View
from berth.rules.node_fit import is_extended_resource
from berth.rules.preemption import BY_HAND_OVER, BY_QUOTA, BY_SCHEDULER
from berth.rules.scheduler_config import FitArgs
from berth.transaction.claims import Claim, Name
from berth.transaction.nominations import Nomination

PROBLEMS_MAX = 64
FIT = "NodeResourcesFit"


class Verifier:
    """Checks plans against a view. It counts quota use, and which pods are where, itself, from the claims that the view
    reports."""

    def __init__(self, cluster: View) -> None:
        self._cluster = cluster
        self._quotas = QuotaTallies()
        self._placed = PlacedPods()
        self._load = LoadLaw()
        for claim in cluster.book.claims():
            self._on_claim(claim, True)
        cluster.observe(self._on_claim)

    def check(self, claims: Sequence[Claim]) -> list[str]:
        """What is wrong with a plan that makes these claims, none of which the book holds yet; empty when nothing."""
        return self._check(claims)

    def check_nomination(
        self,
        claims: Sequence[Claim],
        victims: Sequence[Pod],
        displaced: Collection[Nomination],
        reason: str = BY_SCHEDULER,
    ) -> list[str]:
        """What is wrong with nominating pods to what they take once `victims` have left and `displaced` gave way.

        Without victims they take it at once. Quota that victims use is not free before they have left. `reason` is that
        for which the victims would leave.
        """
        problems = [
            *victim_problems(claims, victims, reason, self._cluster),
            *displaced_problems(claims, displaced, victims, self._cluster),
            *victim_gang_problems(victims, self._cluster),
        ]
        if problems:
            return problems[:PROBLEMS_MAX]
        names_displaced = {each.name for each in displaced}
        if reason == BY_HAND_OVER:
            problems = list(hand_over_problems(claims, victims, self._cluster))
            return problems[:PROBLEMS_MAX] or self._check_without(claims, victims, names_displaced, hands_over=True)
        if reason == BY_QUOTA:
            problems = self._reclaim_problems(claims, victims, names_displaced)
        freed = self._freed_by(claims, victims, reason)
        return problems or self._check_without(claims, victims, names_displaced, freed)

    def _freed_by(self, claims: Sequence[Claim], victims: Sequence[Pod], reason: str) -> list[Claim]:
        """What will no longer be charged to quotas when these have left: for the sake of quota it is waited for."""
        if reason != BY_QUOTA or not claims:
            return []
        return [*held_by(victims, self._cluster), *leaving_of(claims[0].quota.rpartition("/")[0], self._cluster)]

    def check_growth(self, claim: Claim) -> list[str]:
        """What is wrong with letting a Reservation that is placed hold what this claim says instead of what it
        holds."""
        texts = [f"{_name(claim)}: {text}" for text in growth_problems(claim, self._cluster)]
        nominated = nominated_beside([claim], (), self._cluster)
        beside = self._node_problems(claim.node, [claim], {claim.uid}, nominated)
        texts += [f"node {claim.node}: {text}" for text in beside]
        return texts[:PROBLEMS_MAX]

    def check_revocation(self, key: tuple[str, str], victims: Sequence[Pod]) -> list[str]:
        """What is wrong with making these leave a group, whoever would gain."""
        problems = list(victim_gang_problems(victims, self._cluster))
        used = self._quotas.used_of(self._cluster)
        return [*problems, *revocation_problems(key, victims, self._cluster, used)][:PROBLEMS_MAX]

    def spare_victim(
        self,
        claims: Sequence[Claim],
        victims: Sequence[Pod],
        displaced: Collection[Nomination],
        reason: str = BY_SCHEDULER,
    ) -> Pod | None:
        """One of the victims of a gang's nomination that may as well stay, with all that leave with it; None: every one
        is needed."""
        names_displaced = {each.name for each in displaced}
        for unit in units_of(victims, self._cluster):
            if self._is_to_spare(unit, claims, victims, names_displaced, reason):
                return unit[0]
        return None

    def _is_to_spare(
        self,
        unit: Sequence[Pod],
        claims: Sequence[Claim],
        victims: Sequence[Pod],
        displaced: Collection[Name],
        reason: str,
    ) -> bool:
        """Whether the claims have their places without this unit of the victims, too; its own nodes say mostly no."""
        uids = {victim.uid for victim in unit}
        rest = [victim for victim in victims if victim.uid not in uids]
        uids_of_rest = {victim.uid for victim in rest}
        nominated = nominated_beside(claims, displaced, self._cluster)
        for node in sorted({victim.node for victim in unit}):
            arriving = [claim for claim in claims if claim.node == node]
            if arriving and self._node_problems(node, arriving, uids_of_rest, nominated):
                return False
        return not self._check_without(claims, rest, displaced, self._freed_by(claims, rest, reason))

    def _reclaim_problems(
        self, claims: Sequence[Claim], victims: Sequence[Pod], displaced: Collection[Name]
    ) -> list[str]:
        used_of = self._quotas.used_of(self._cluster)
        payers = {
            (tree, name) for claim in held_by(victims, self._cluster) for tree, _, name in [claim.quota.rpartition("/")]
        }
        used = {key: dict(used_of(key)) for key in payers}
        with self._charged(nominated_beside(claims, displaced, self._cluster)):
            problems = reclaim_problems(claims, victims, self._cluster, used_of, lambda key: used.get(key, {}))
            return list(problems)[:PROBLEMS_MAX]

    def _check_without(
        self,
        claims: Sequence[Claim],
        victims: Sequence[Pod],
        displaced: Collection[Name],
        freed: Sequence[Claim] = (),
        *,
        hands_over: bool = False,
    ) -> list[str]:
        uids = {victim.uid for victim in victims}
        nodes = sorted({victim.node for victim in victims})
        gone = [each for node in nodes for each in self._cluster.book.claims_on(node) if each.uid in uids]
        for each in gone:
            self._placed.count(each, added=False)
        try:
            return self._check(claims, gone, displaced, freed, nominates=bool(victims), hands_over=hands_over)
        finally:
            for each in gone:
                self._placed.count(each, added=True)

    def _check(
        self,
        claims: Sequence[Claim],
        gone: Sequence[Claim] = (),
        displaced: Collection[Name] = (),
        freed: Sequence[Claim] = (),
        *,
        nominates: bool = False,
        hands_over: bool = False,
    ) -> list[str]:
        """`freed` is what will no longer be charged to any quota."""
        problems: list[str] = []
        nominated = nominated_beside(claims, displaced, self._cluster)
        seen: set[str] = set()
        by_node: dict[str, list[Claim]] = {}
        before: Claim | None = None
        for claim in claims:
            if claim.uid in seen:
                problems.append(f"{_name(claim)}: its uid {claim.uid} is placed twice by the plan")
            seen.add(claim.uid)
            is_handed = hands_over or is_handed_over(claim, self._cluster)
            texts = [
                *object_problems(claim, self._cluster, before, is_handed_over=is_handed),
                *turn_problems(claim, self._cluster, nominates=nominates),
            ]
            if texts:
                problems += [f"{_name(claim)}: {text}" for text in texts]
            before = None if is_handed else claim
            by_node.setdefault(claim.node, []).append(claim)
        uids_gone = {each.uid for each in gone}
        for node, arriving in by_node.items():
            problems += [f"node {node}: {text}" for text in self._node_problems(node, arriving, uids_gone, nominated)]
        problems += self._quota_problems(claims, nominated, freed)
        problems += tree_problems(claims, self._cluster)
        members = by_gang(claims, self._cluster)
        problems += gang_problems(members, self._cluster)
        problems += spread_problems(claims, self._cluster, self._placed)
        problems += affinity_problems(claims, self._cluster, self._placed)
        problems += network_problems(members, self._cluster)
        problems += volume_problems(claims, self._cluster, gone)
        problems += self._load.problems(claims, nominated, self._cluster)
        return problems[:PROBLEMS_MAX]

    def _quota_problems(self, claims: Sequence[Claim], nominated: Sequence[Claim], freed: Sequence[Claim]) -> list[str]:
        """A nomination is charged to its group from its commit on."""
        with self._charged(nominated), self._charged(freed, -1):
            return list(self._quotas.problems(claims, self._cluster))

    @contextmanager
    def _charged(self, claims: Iterable[Claim], sign: int = 1) -> Iterator[None]:
        """With these counted (1) or not (-1)."""
        of_each = {claim.uid: claim for claim in claims}.values()
        for each in of_each:
            self._quotas.count(each, sign)
        try:
            yield
        finally:
            for each in of_each:
                self._quotas.count(each, -sign)

    def _node_problems(
        self, node: str, arriving: Sequence[Claim], gone: Collection[str], nominated: Sequence[Claim]
    ) -> list[str]:
        nodes = self._cluster.nodes
        row = nodes.rows.get(node)
        state = nodes.states[row] if row is not None else None
        if row is None or state is None:
            return ["is not known"]
        held = [each for each in self._cluster.book.claims_on(node) if each.uid not in gone]
        held += [each for each in nominated if each.node == node]
        place = Place(state, nodes.inventories[row], nodes.topologies[row])
        now, held = held, as_users(held, arriving)
        check = NodeCheck(place, held, arriving, self._left_out, self._wish_of)
        problems = [*check.problems(), *lent_problems(state, nodes.offers.get(node), held, arriving)]
        for claim in arriving:
            if claim.is_reservation or claim.before:
                texts = take_over_problems(claim, now, arriving, self._cluster)
                problems += [f"{_name(claim)}: {text}" for text in texts]
            if claim.reservation:
                problems += [f"{_name(claim)}: {text}" for text in draw_problems(claim, held, arriving, self._cluster)]
            if claim.loans:
                before = [*held, *(each for each in arriving if each is not claim)]
                problems += [f"{_name(claim)}: {text}" for text in loan_problems(claim, before, self._cluster)]
        return problems

    def _left_out(self, claim: Claim) -> Set[str]:
        """Resources that the profile of the claim's object does not look at."""
        seen = self._cluster.book.seen(claim.name)
        if seen is None:
            return frozenset()
        profile = self._cluster.profile_of(seen.template.scheduler)
        if FIT not in profile.constraints:
            return {*claim.amounts, names.PODS}
        args = profile.args_of(FIT, FitArgs)
        if not args.ignored_resources and not args.ignored_resource_groups:
            return frozenset()
        return {
            name
            for name in filter(is_extended_resource, claim.amounts)
            if name in args.ignored_resources or name.partition("/")[0] in args.ignored_resource_groups
        }

    def _wish_of(self, claim: Claim) -> Wish | None:
        seen = self._cluster.book.seen(claim.name)
        if seen is None or seen.uid != claim.uid:
            return None
        return wish_of(seen.template, self._cluster)

    def _on_claim(self, claim: Claim, added: bool) -> None:
        self._quotas.count(claim, 1 if added else -1)
        self._placed.count(claim, added=added)
        self._load.count(claim, added=added)


def _name(claim: Claim) -> str:
    return "/".join(claim.name)
