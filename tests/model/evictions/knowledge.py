"""What somebody knows: LEDGER as read, a view of STATE, and the words that docs/evictions.md makes of both."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from tests.model.evictions.state import APART, CLAIM, Batch, Claim, Known, Pod, Pods, State
from tests.model.evictions.world import World

REMEMBERED_MAX = 200_000
EVERYWHERE = -1
"""A mask of all slots."""


class Knowledge:
    """The words, in one world. What was folded or looked at is remembered."""

    def __init__(self, world: World) -> None:
        self.world, self.rules = world, world.rules
        self.names = world.names
        self.width = world.width or (1,) * len(world.prio)
        self.fits = world.fits or ((1 << len(world.nodes)) - 1,) * len(world.prio)
        self.accounts = len(set(world.nodes)) + 2
        self.quota_account, self.gang_account = self.accounts - 2, self.accounts - 1
        self.node_masks = [
            sum(1 << at for at, each in enumerate(world.nodes) if each == node) for node in sorted(set(world.nodes))
        ]
        self.places = [self._places(name) for name in self.names]
        self._folds: dict[tuple[Batch, ...], Known] = {}
        self._sights: dict[Any, tuple[Pods, int]] = {}

    def calm(self, world: World) -> Knowledge:
        """The same in another world of this size, with what is remembered."""
        other = Knowledge(world)
        other._folds = self._folds
        return other

    def _places(self, name: int) -> list[int]:
        found: list[int] = []
        for mask in self.node_masks:
            slots = [1 << at for at in range(len(self.world.nodes)) if mask & (1 << at) & self.fits[name]]
            if self.width[name] == 1:
                found += slots
            elif len(slots) >= self.width[name]:
                found += [sum(slots[: self.width[name]])]
        return found

    def who(self, name: int, uid: int) -> int:
        """For whom a victim leaves: a pod by its uid, a gang as one."""
        return -1 if name in self.world.gang else uid

    # --- LEDGER and STATE as read ------------------------------------------------------------------------------------

    def fold(self, ledger: tuple[Batch, ...]) -> Known:
        """What a reader of these batches knows."""
        got = self._folds.get(ledger)
        if got is not None:
            return got
        none: list[tuple[int, Claim | None]] = [(0, None)] * len(self.names)
        claims, apart, stamps, plans, epoch, mark = list(none), list(none), [0] * self.accounts, set[int](), 0, 0
        for at, batch in enumerate(ledger, 1):
            if not batch.plan:
                claims, apart, stamps, plans = list(none), list(none), [0] * self.accounts, set()
                epoch, mark = batch.epoch, batch.mark
            elif batch.epoch == epoch:
                plans.add(batch.plan)
                for family, key, value in batch.writes:
                    if family == CLAIM:
                        claims[key] = (at, value)
                    elif family == APART:
                        apart[key] = (at, value)
                    else:
                        stamps[key] = at
        if len(self._folds) > REMEMBERED_MAX:
            self._folds.clear()
        known = Known(epoch, mark, tuple(claims), tuple(apart), tuple(stamps), frozenset(plans))
        self._folds[ledger] = known
        return known

    def view(self, state: State, me: int) -> tuple[Pods, int]:
        """What a follower shows, and the version through which that is complete."""
        count, missed = state.views[me], state.missed[me]
        if not count:
            return state.base, 0
        key = (state.base, state.log[:count], missed)
        got = self._sights.get(key)
        if got is None:
            pods = list(state.base)
            for at, (name, pod) in enumerate(key[1]):
                if at not in missed:
                    pods[name] = pod
            if len(self._sights) > REMEMBERED_MAX:
                self._sights.clear()
            got = self._sights[key] = tuple(pods), min(missed, default=count)
        return got

    def version_of(self, state: State, me: int, name: int) -> int:
        """The version of a pod in a view."""
        read = range(state.views[me])
        return max((at + 1 for at in read if state.log[at][0] == name and at not in state.missed[me]), default=0)

    def claims(self, known: Known) -> list[Claim]:
        """All that the ledger holds."""
        return [claim for _, claim in (*known.claims, *known.apart) if claim]

    # --- words -------------------------------------------------------------------------------------------------------

    def settled(self, state: State, pods: Pods, through: int, claim: Claim) -> bool:
        """Its pod is gone, or past this attempt; a nomination also when its pod is bound."""
        pod = pods[claim.name]
        if pod and pod.uid == claim.uid:
            return pod.attempt > claim.attempt or bool(claim.nominates and pod.place)
        return through >= state.bases[claim.plan]

    def over(self, state: State, pods: Pods, through: int, claim: Claim) -> bool:
        """Nothing is left to do about it."""
        pod = pods[claim.name]
        return self.settled(state, pods, through, claim) or bool(pod and pod.uid == claim.uid and pod.place)

    def is_current(self, pod: Pod | None, claim: Claim) -> bool:
        """The nomination is of this pod and this attempt, and the pod waits."""
        return bool(pod and pod.uid == claim.uid and not pod.place and not pod.ends and pod.attempt == claim.attempt)

    def left_or_leaves(self, state: State, pods: Pods, through: int, claim: Claim, *, gone_only: bool = False) -> bool:
        """Every victim of a nomination is gone, or (unless `gone_only`) terminating."""
        if self.rules.victims_basis and through < state.bases[claim.plan]:
            return False
        for name, uid in claim.victims:
            pod = pods[name]
            if pod and pod.uid == uid and (gone_only or not pod.ends):
                return False
        return True

    def may_evict(self, state: State, pods: Pods, name: int, victim: int) -> bool:
        """Whether this bound pod may be a victim, or is leaving anyway."""
        pod = pods[victim]
        assert pod
        world = self.world
        given_up = {plan for each in pods if each for plan in each.let_go}
        if pod.ends:
            # Past its grace period: seen by the clock, here by somebody's having given up.
            return not (pod.mark and pod.mark[0] in given_up) and not (given_up and victim in world.stuck)
        waits = pods[name]
        if self.rules.refused and waits and pod.uid in waits.refused:
            return False
        if pod.guarded or (world.polite and victim in world.budgeted and not state.pdb):
            return False
        if self.rules.strict:
            return world.prio[victim] < world.prio[name]
        return world.prio[victim] <= world.prio[name] and victim != name

    # --- what nominations hold ---------------------------------------------------------------------------------------

    def rivals(self, pods: Pods, state: State, claims: list[Claim], name: int) -> tuple[int, list[Claim]]:
        """Places that count for this pod (decided, nominated by equals or higher ones), and lower ones' nominations."""
        prio, world = self.world.prio, self.world
        mine = world.gang if name in world.gang else ()
        hard, soft = 0, []
        bound = {pod.uid for pod in pods if pod and pod.place}
        covered = set()
        for claim in claims:
            covered.add(claim.uid)
            if claim.name == name or claim.name in mine or claim.uid in bound:
                continue
            if not claim.nominates:
                hard |= claim.place
            elif self.rules.holds:
                if prio[claim.name] >= prio[name]:
                    hard |= claim.place
                else:
                    soft.append(claim)
        if self.rules.noted:
            for other, pod in enumerate(pods):
                if other == name or other in mine or prio[other] < prio[name]:
                    continue
                if pod and pod.noted and not pod.place and pod.uid not in covered:
                    hard |= self._noted(state, pods, name, other)
        return hard, soft

    def _noted(self, state: State, pods: Pods, name: int, other: int) -> int:
        """The place that Kubernetes remembers for another pod, as far as it counts for this one."""
        pod, me, world = pods[other], pods[name], self.world
        assert pod
        assert me
        together = world.gang if other in world.gang else (other,)
        if self.rules.noted_ends and not all(self._could_have(state, pods, each, pod.noted[0]) for each in together):
            return 0
        is_equal = world.prio[other] == world.prio[name]
        if is_equal and me.noted and me.noted[1] & pod.noted[1] and me.uid < pod.uid:
            return 0
        return pod.noted[1]

    def _could_have(self, state: State, pods: Pods, name: int, plan: int) -> bool:
        """Whether a pod can have the place that Kubernetes remembers, once all leave whom it may evict."""
        pod = pods[name]
        if not pod or pod.place or not pod.noted or pod.noted[0] != plan:
            return False
        return self.could_place(state, pods, name, pod.noted[1])

    def could_place(self, state: State, pods: Pods, name: int, place: int) -> bool:
        """Whether a pod can have a place, once all leave whom it may evict."""
        return not place & state.unfit and all(self.may_evict(state, pods, name, each) for each in self.on(pods, place))

    def on(self, pods: Pods, place: int) -> list[int]:
        """Who is bound to one of these slots."""
        return [name for name, pod in enumerate(pods) if pod and pod.place & place]

    def give_way(
        self,
        state: State,
        pods: Pods,
        through: int,
        soft: list[Claim],
        place: int,
        victims: Collection[tuple[int, int]],
    ) -> list[Claim] | None:
        """The nominations of lower pods in this place, if they can be displaced; else None."""
        found = []
        for claim in soft:
            if claim.place & place and self.rules.displaced:
                rest = claim._replace(victims=tuple(each for each in claim.victims if each not in victims))
                if not self.left_or_leaves(state, pods, through, rest):
                    return None
                found.append(claim)
        return found

    def used(
        self,
        pods: Pods,
        claims: list[Claim],
        name: int,
        leaving: Collection[tuple[int, int]],
        displaced: Iterable[Claim],
    ) -> int:
        """Quota in use once everybody is gone who leaves, as it counts for `name`; -1: for nobody in particular."""
        prio, total, bound, given = self.world.prio, 0, set(), list(displaced)
        for other, pod in enumerate(pods):
            if pod and pod.place:
                bound.add(pod.uid)
                total += 0 if (other, pod.uid) in leaving else self.width[other]
        for claim in claims:
            if claim.uid in bound or claim.name == name or claim in given:
                continue
            is_held = self.rules.quota_held and (self.rules.displaced or prio[claim.name] >= prio[name])
            if name < 0 or not claim.nominates or is_held:
                total += self.width[claim.name]
        return total

    def within(
        self,
        state: State,
        pods: Pods,
        through: int,
        claims: list[Claim],
        name: int,
        leaving: Collection[tuple[int, int]],
        displaced: list[Claim],
        victims: Collection[tuple[int, int]],
    ) -> list[Claim] | None:
        """Nominations that give way so that the quota is kept, lowest first; None if that is not enough."""
        limit, prio = self.world.quota - self.width[name], self.world.prio
        lower = sorted(
            (each for each in claims if each.nominates and prio[each.name] < prio[name] and each not in displaced),
            key=lambda claim: prio[claim.name],
        )
        while self.used(pods, claims, name, leaving, displaced) > limit:
            way = self.give_way(state, pods, through, lower[:1], EVERYWHERE, victims) if lower else None
            if not way:
                return None
            displaced, lower = displaced + way, lower[1:]
        return displaced
