"""Quota reclaim for gangs, and by gangs: many places at once, and victims that leave together or stay together.

A gang whose members all stay within the min of the groups that pay for them is promised its places: what other groups
use beyond their runtime comes back for all of them, in one plan, or for none. If limits of quota keep it waiting, those
of lower priority in its own groups leave as well. A pod by itself is a job of one: strict gangs that can spare nobody
leave whole for either, once nobody was found who leaves by himself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.giving import Giving
from berth.placement_solver.core.displacers.giving_units import Found, GivingUnit, GivingUnits
from berth.placement_solver.core.displacers.job import GANG, JobPreemption, needed_of, victims_of
from berth.placement_solver.core.displacers.job_problem import classes_of
from berth.placement_solver.core.displacers.lenders import Key, Lenders, Limits, Share
from berth.placement_solver.core.displacers.one_node import about_to_leave
from berth.placement_solver.core.displacers.quota import NAME as PLUGIN
from berth.placement_solver.core.displacers.removable import LeavingUnit
from berth.placement_solver.core.displacers.seam import Asking, Ground, Nobody, Proposal, Refused
from berth.placement_solver.core.explain import OWN
from berth.placement_solver.core.plan import Candidate, Placement, Unit
from berth.placement_solver.core.trial import Trial
from berth.rules.preemption import BY_QUOTA, Budgets
from berth.rules.quota_reclaim import Charged
from berth.rules.scheduler_config import ElasticQuotaArgs

NAME: Final = "ElasticQuotaJobs"
QUOTA: Final = "quota"
"""The code of the reason that a limit of a group is."""


class _Job(NamedTuple):
    """Members, what each group of their tree is asked to pay and all of them together, and who leaves it already."""

    members: tuple[Candidate, ...]
    tree: str
    shares: tuple[Share, ...]
    asked: dict[str, int]
    leaving: tuple[Charged, ...]


class QuotaReclaimByUnits:
    """A displacer for gangs for which quota groups of one tree pay, and for single pods after `QuotaReclaim`."""

    name = NAME

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._quotas = ground.capacity.quotas
        self._jobs = JobPreemption(ground)
        self._giving = Giving(ground, lambda pod: False)
        self._found = Found()

    def concerns(self, refused: Refused) -> bool:
        """Limits of quota keep them waiting, or the nodes though the min of their group promises them their places."""
        if _tree_of(refused.unit.candidates) is None:
            return False
        codes: set[str] = set()
        for each in refused.refusals:
            candidate = each.candidate
            if not isinstance(candidate.object, Pod) or candidate.refusals or candidate.cls.refusals:
                return False
            codes |= {reason.code for reason in each.reasons} - ({GANG} if refused.unit.needed else set())
        if not codes or codes & (OWN - {QUOTA}):
            return False
        return QUOTA in codes or self._is_promised(needed_of(refused.unit) or refused.unit.candidates)

    def propose(self, refused: Refused, asking: Asking) -> Proposal | Nobody:
        """Places for all members that wait, or else for those that the gang needs, and who leaves for that."""
        unit = refused.unit
        needed = tuple(needed_of(unit))
        if len(needed) < sum(unit.needed.values()) or self._jobs.why_not(unit, asking):
            return Nobody()
        found = self._for_members(unit, unit.candidates, asking)
        if found is None and 0 < len(needed) < len(unit.candidates):
            found = self._for_members(unit, needed, asking)
        return found or Nobody()

    def could_have(self, refused: Refused, node: str, asking: Asking) -> bool:
        """Whether a member could have this node once all leave whom it may make leave."""
        candidates = refused.unit.candidates
        tree, row = _tree_of(candidates), self._ground.nodes.rows.get(node)
        if tree is None or row is None:
            return False
        lowest = min(each.object.template.priority for each in candidates)
        with self._ground.nominated.heeded_by([each.name for each in candidates], lowest):
            for each, *_ in classes_of(candidates):
                job = self._job((each,), tree)
                giving = GivingUnits(self._ground, tree, asking, _uids(job.leaving), Budgets(), self._found)
                units = [one.unit for one in giving.lent(self._lenders(job), job.asked)]
                units = [one for one in units if any(leaver.pod.node == node for leaver in one.leavers)]
                if self._jobs.could_take(row, [each._replace(quota=None)], units):
                    return True
        return False

    # --- one set of members ------------------------------------------------------------------------------------------

    def _for_members(self, unit: Unit, members: tuple[Candidate, ...], asking: Asking) -> Proposal | None:
        tree = _tree_of(members)
        if tree is None:
            return None
        free = self._free_places(unit, members, asking.plan)
        lowest = min(each.object.template.priority for each in unit.candidates)
        with self._ground.nominated.heeded_by([each.name for each in unit.candidates], lowest):
            job = self._job(members, tree)
            limits = Limits(self._quotas, tree, job.shares)
            if not limits.can_be_helped:
                return None
            for each in job.leaving:
                limits.count(each, -1)
            budgets = Budgets(self._ground.budgets(), about_to_leave(self._ground.book))
            giving = GivingUnits(self._ground, tree, asking, _uids(job.leaving), budgets, self._found)
            lent = giving.lent(self._lenders(job), job.asked)
            there = (free, ()) if free else self._places_made_free(unit, members, lent, budgets, asking)
            if there is None:
                return None
            placements, leaving = there
            going = {each.pod.uid for one in leaving for each in one.everybody}
            for charged in {each.pod.uid: each for one in lent for each in one.charged}.values():
                if charged.pod.uid in going:
                    limits.count(charged, -1)
            rest = [one for one in lent if not any(pod.uid in going for pod in one.pods)]
            args = members[0].cls.rules.profile.args_of(PLUGIN, ElasticQuotaArgs)
            keeps_default = args.disable_default_quota_preemption
            own = [
                one
                for share in (job.shares if limits.is_over else ())
                for one in giving.lower(share.key, lowest, keeps_default=keeps_default)
            ]
            more = _freeing(limits, [*rest, *own])
        if more is None or not (leaving or more):
            return None
        victims = victims_of([*leaving, *(each.unit for each in more)])
        return Proposal(placements, victims, (), BY_QUOTA, self._giving.groups_of(victims))

    def _is_promised(self, members: Sequence[Candidate]) -> bool:
        """Whether each group that pays stays within its min with all whom it pays for, and those below it."""
        return all(
            self._quotas.is_promised(
                key, _sum(each.of_min for each in members if each.quota and key in self._quotas.line(each.quota))
            )
            for key in _payers_of(members)
        )

    def _job(self, members: Sequence[Candidate], tree: str) -> _Job:
        return _Job(
            tuple(members),
            tree,
            tuple(
                Share(
                    key,
                    _sum(each.charged for each in members if each.quota == key),
                    any(each.non_preemptible for each in members if each.quota == key),
                )
                for key in _payers_of(members)
            ),
            _sum(each.charged for each in members),
            tuple(self._giving.leaving(tree)),
        )

    def _lenders(self, job: _Job) -> Lenders:
        own = {share.key[1] for share in job.shares}
        groups = self._ground.charged.groups(job.tree) if self._is_promised(job.members) else ()
        used = self._giving.used(job.tree, job.leaving) if groups else {}
        return Lenders(self._quotas, job.tree, (name for name in groups if name not in own), used)

    def _free_places(self, unit: Unit, members: Sequence[Candidate], plan: str) -> tuple[Placement, ...]:
        """Their places as nodes are, if no quota limited them; none where one of them has none."""
        with Trial(self._ground.capacity) as trial:
            found = self._ground.solver.solve([unit._replace(candidates=_unpaid(members))], trial, plan)
        return _paid(found.placements, members) if len(found.placements) == len(members) else ()

    def _places_made_free(
        self,
        unit: Unit,
        members: Sequence[Candidate],
        lent: Sequence[GivingUnit],
        budgets: Budgets,
        asking: Asking,
    ) -> tuple[tuple[Placement, ...], tuple[LeavingUnit, ...]] | None:
        """Places once some of what is lent has left nodes, and who has to."""

        def units_on(nodes: Iterable[str]) -> list[LeavingUnit]:
            some = set(nodes)
            return [one.unit for one in lent if any(each.pod.node in some for each in one.unit.leavers)]

        if not lent:
            return None
        found = self._jobs.places_for(unit, _unpaid(members), units_on, budgets, asking)
        return (_paid(found.placements, members), found.units) if found is not None else None


def _freeing(limits: Limits, units: Sequence[GivingUnit]) -> list[GivingUnit] | None:
    """Which of these units have to leave so that no limit is exceeded; None: it does not help.

    A member that its gang can spare is a unit, and leaves with the gang as well: it counts once.
    """
    chosen: list[GivingUnit] = []
    going = Counter[str]()
    for each in units:
        if not limits.is_over:
            break
        more = [one for one in each.charged if not going[one.pod.uid]]
        if any(map(limits.is_helped_by, more)):
            _count(limits, more, -1)
            going.update(pod.uid for pod in each.pods)
            chosen.append(each)
    if limits.is_over:
        return None
    needed: list[GivingUnit] = []
    for each in sorted(chosen, key=lambda one: (-one.order[0], one.order[1])):
        back = [one for one in each.charged if going[one.pod.uid] == 1]
        _count(limits, back, 1)
        if limits.is_over:
            _count(limits, back, -1)
            needed.append(each)
        else:
            going.subtract(pod.uid for pod in each.pods)
    return needed


def _count(limits: Limits, pods: Iterable[Charged], sign: int) -> None:
    for each in pods:
        limits.count(each, sign)


def _unpaid(members: Iterable[Candidate]) -> tuple[Candidate, ...]:
    return tuple(each._replace(quota=None) for each in members)


def _paid(placements: Iterable[Placement], members: Iterable[Candidate]) -> tuple[Placement, ...]:
    """The same placements, charged to the group that pays."""
    payer = {each.name: each for each in members}
    found = []
    for each in placements:
        candidate = payer[each.candidate.name]
        quota = "/".join(candidate.quota) if candidate.quota is not None else ""
        found.append(each._replace(candidate=candidate, claim=each.claim._replace(quota=quota)))
    return tuple(found)


def _payers_of(candidates: Iterable[Candidate]) -> list[Key]:
    """The groups that pay for them."""
    return sorted({each.quota for each in candidates if each.quota is not None})


def _tree_of(candidates: Sequence[Candidate]) -> str | None:
    """The one tree of which groups pay for all of them."""
    trees = {each.quota[0] if each.quota is not None else None for each in candidates}
    return trees.pop() if len(trees) == 1 else None


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total


def _uids(leaving: Iterable[Charged]) -> frozenset[str]:
    return frozenset(each.pod.uid for each in leaving)
