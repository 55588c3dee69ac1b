"""placement-solver: reads LEDGER, decides, nominates with victims, displaces nominations of lower pods, tidies."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.evictions.judging import overlap
from tests.model.evictions.knowledge import Knowledge
from tests.model.evictions.state import APART, CLAIM, STAMP, Batch, Claim, Known, Pods, State, Step

NOT_YET, IF_FREE, ANYHOW = 0, 1, 2
"""A pod is not planned; is decided if there is capacity; may be nominated, too."""

Place = tuple[int, list[Claim], tuple[tuple[int, int], ...]]
"""A place, the nominations that give way, the victims."""


class Solver:
    """One solver at one moment: its view, its ledger, the claims that it takes to stand."""

    def __init__(self, know: Knowledge, state: State, me: int) -> None:
        self.know, self.state, self.me = know, state, me
        self.world, self.rules = know.world, know.rules
        self.known: Known = state.known[me]
        pods, through = know.view(state, me)
        self.pods: Pods = pods
        self.through: int = through
        self.claims: list[Claim] = []

    def steps(self) -> Iterator[Step]:
        """Everything that this solver may do next."""
        know, state, me, known = self.know, self.state, self.me, self.known
        now = know.fold(state.ledger)
        if now != known:
            read = state._replace(known=(*state.known[:me], now, *state.known[me + 1 :]))
            yield Step("solver reads LEDGER", (me,), read)
        if not known.epoch or self.through < state.bases[known.mark]:
            return
        standing = know.claims(known)
        self.claims = [each for each in standing if not know.settled(state, self.pods, self.through, each)]
        if state.left("tidies"):
            for name, (at, claim) in enumerate(known.claims):
                is_same = now.claims[name][0] == at and now.epoch == known.epoch
                if claim and claim not in self.claims and is_same:
                    after = state.append(Batch(-1, known.epoch, ((CLAIM, name, None),))).spend("tidies")
                    yield Step("solver tidies", (me, name), after)
        if state.made < self.world.plans + state.lost:
            yield from self._plan()

    def _plan(self) -> Iterator[Step]:
        gang, victim_gang = self.world.gang, self.world.victim_gang
        pending = {name: self._pending(name) for name in self.know.names}
        victims = {victim for claim in self.claims if claim.nominates for victim, _ in claim.victims}
        if self.rules.gang_whole and victims & set(victim_gang):
            pending.update(dict.fromkeys(victim_gang, NOT_YET))
        for name in self.know.names:
            if pending[name] and name not in gang:
                found = self._preferred(name, list(self._free(name)))
                for place, displaced in found:
                    yield from self._commit([(name, place)], displaced, None)
                if not found and pending[name] == ANYHOW:
                    for place, displaced, victims in self._emptied(name):
                        yield from self._commit([(name, place)], displaced, victims)
        if gang and all(pending[name] for name in gang):
            yield from self._gang(min(pending[name] for name in gang))
        elif gang and any(pod and pod.place for name, pod in enumerate(self.pods) if name in gang):
            for name in gang:  # what is left of a gang that has begun
                if pending[name]:
                    for place, displaced in self._free(name):
                        yield from self._commit([(name, place)], displaced, None)

    def _pending(self, name: int) -> int:
        pod = self.pods[name]
        if not pod or pod.place or pod.ends or self.through < self.state.bases[pod.basis]:
            return NOT_YET
        may = ANYHOW
        for claim in self.claims:
            if claim.name != name:
                continue
            if not claim.nominates or claim.uid != pod.uid:
                if self.rules.one_key or not claim.nominates:
                    return NOT_YET
            elif self.rules.kept:
                if not self.know.left_or_leaves(self.state, self.pods, self.through, claim):
                    return NOT_YET
                if not self.know.left_or_leaves(self.state, self.pods, self.through, claim, gone_only=True):
                    may = IF_FREE
        me = self.know.who(name, pod.uid)
        for other in self.pods:
            if other and other.mark and other.mark[1] == me:
                if self.rules.one_set and other.ends and other.mark[0] not in pod.let_go:
                    may = IF_FREE
                if not other.ends and self.rules.spared:
                    return NOT_YET
        return may

    # --- places ------------------------------------------------------------------------------------------------------

    def _free(self, name: int, taken: tuple[int, ...] = ()) -> Iterator[tuple[int, list[Claim]]]:
        """Places that nobody is in."""
        know, state, pods, through = self.know, self.state, self.pods, self.through
        hard, soft = know.rivals(pods, state, self.claims, name)
        for pod in pods:
            hard |= pod.place if pod else 0
        for place in know.places[name]:
            if place & (hard | state.unfit) or any(place & each for each in taken):
                continue
            displaced = know.give_way(state, pods, through, soft, place, ())
            if displaced is not None and self.world.quota:
                displaced = know.within(state, pods, through, self.claims, name, (), displaced, ())
            if displaced is not None:
                yield place, displaced

    def _preferred(self, name: int, found: list[tuple[int, list[Claim]]]) -> list[tuple[int, list[Claim]]]:
        """Its nominated place if it can have it; else one that nobody is nominated to; else that of lower ones."""
        if not self.rules.own_first:
            return found
        pod = self.pods[name]
        assert pod
        own = {claim.place for claim in self.claims if claim.name == name and claim.nominates}
        own |= {pod.noted[1]} if pod.noted else set()
        undisputed = [each for each in found if not each[1]]
        return [each for each in undisputed if each[0] in own] or undisputed or found

    def _emptied(self, name: int, taken: tuple[int, ...] = ()) -> Iterator[Place]:
        """Places from which everybody may be evicted."""
        know, state, pods, through, quota = self.know, self.state, self.pods, self.through, self.world.quota
        hard, soft = know.rivals(pods, state, self.claims, name)
        for place in know.places[name]:
            if place & (hard | state.unfit) or any(place & each for each in taken):
                continue
            there = know.on(pods, place)
            if any(not know.may_evict(state, pods, name, each) for each in there):
                continue
            leaving = self._leaving(there) if quota else set()
            for chosen in self._with_quota(name, there, leaving) if quota else [there]:
                victims = self._whole(name, chosen)
                if not victims or all(pods[each].ends for each, _ in victims):  # type: ignore[union-attr]
                    continue
                displaced = know.give_way(state, pods, through, soft, place, victims)
                if displaced is not None and quota:
                    gone = leaving | set(victims)
                    displaced = know.within(state, pods, through, self.claims, name, gone, displaced, victims)
                if displaced is not None:
                    yield place, displaced, victims

    def _leaving(self, there: list[int]) -> set[tuple[int, int]]:
        leaving = {(each, self.pods[each].uid) for each in there}  # type: ignore[union-attr]
        leaving |= {victim for claim in self.claims if claim.nominates for victim in claim.victims}
        return leaving | {(name, pod.uid) for name, pod in enumerate(self.pods) if pod and pod.place and pod.ends}

    def _with_quota(self, name: int, there: list[int], leaving: set[tuple[int, int]]) -> list[list[int]]:
        """Those in the place, with one more each time if the quota would not be kept otherwise."""
        know, state, pods = self.know, self.state, self.pods
        leave = tuple((each, pods[each].uid) for each in there)  # type: ignore[union-attr]
        if know.within(state, pods, self.through, self.claims, name, leaving, [], leave) is not None:
            return [there]
        return [
            [*there, other]
            for other, pod in enumerate(pods)
            if other not in there and pod and pod.place and (other, pod.uid) not in leaving and not pod.ends
            if know.may_evict(state, pods, name, other)
        ]

    def _whole(self, name: int, chosen: list[int]) -> tuple[tuple[int, int], ...]:
        """The victims with the rest of their gang; none if it may not be evicted whole."""
        pods, gang = self.pods, self.world.victim_gang
        if self.rules.gang_whole and any(each in gang and not pods[each].ends for each in chosen):  # type: ignore[union-attr]
            for claim in self.claims:
                member = pods[claim.name]
                if claim.name in gang and not claim.nominates and member and not member.place:
                    return ()
            others = [each for each in gang if each not in chosen and pods[each] and pods[each].place]  # type: ignore[union-attr]
            if any(not self.know.may_evict(self.state, pods, name, each) for each in others):
                return ()
            chosen = chosen + others
        return tuple(sorted((each, pods[each].uid) for each in chosen))  # type: ignore[union-attr]

    def _gang(self, may: int) -> Iterator[Step]:
        """Places for all members, free ones first."""
        one, two = self.world.gang
        found = False
        for first, displaced in self._free(one):
            for second, more in self._free(two, (first,)):
                found = True
                yield from self._commit([(one, first), (two, second)], displaced + more, None)
        if found or may < ANYHOW:
            return
        for first, displaced, victims in self._any(one):
            for second, more, others in self._any(two, (first,)):
                everybody = tuple(sorted(set(victims) | set(others)))
                budgeted = [each for each, _ in everybody if each in self.world.budgeted]
                cost = sum(1 for each in budgeted if not self.pods[each].ends)  # type: ignore[union-attr]
                if everybody and not (self.world.polite and cost > self.state.pdb):
                    yield from self._commit([(one, first), (two, second)], displaced + more, everybody)

    def _any(self, name: int, taken: tuple[int, ...] = ()) -> list[Place]:
        free: list[Place] = [(place, displaced, ()) for place, displaced in self._free(name, taken)]
        return free + list(self._emptied(name, taken))

    # --- a batch -----------------------------------------------------------------------------------------------------

    def _commit(
        self,
        places: list[tuple[int, int]],
        displaced: list[Claim],
        victims: tuple[tuple[int, int], ...] | None,
    ) -> Iterator[Step]:
        """A batch, if the server accepts it; a nomination if `victims` are given."""
        know, state, known, pods, me = self.know, self.state, self.known, self.pods, self.me
        plan, nominates = len(state.bases), victims is not None
        made = [
            Claim(
                plan,
                name,
                pods[name].uid,  # type: ignore[union-attr]
                pods[name].attempt,  # type: ignore[union-attr]
                place,
                victims or (),
                int(nominates),
                len(places),
                known.epoch,
            )
            for name, place in places
        ]
        writes = self._writes(made, displaced, nominates=nominates)
        now = know.fold(state.ledger)
        if now.epoch != known.epoch:
            return
        for family, key, _ in writes:
            mine, theirs = (known.claims, now.claims) if family == CLAIM else (known.apart, now.apart)
            if mine[key][0] != theirs[key][0]:
                return
        accounts = self._accounts(made, victims)
        if any(known.stamps[each] != now.stamps[each] for each in accounts):
            return
        writes += [(STAMP, each, None) for each in sorted(accounts)]
        bad = state.bad or ("" if state.lost else overlap(know, state, now, made, displaced, victims))
        gone = {claim.plan for claim in displaced}
        # Who is decided, or nominated elsewhere, gives up what its former victims left.
        kept = {(claim.name, claim.uid): claim.place if nominates else 0 for claim in made}
        gone |= {of for name, uid, at, of in state.promised if kept.get((name, uid), at) != at}
        concerned = {name for name, _ in places} | {each for each, _ in victims or ()}
        basis = max([self.through, *(know.version_of(state, me, each) for each in concerned)])
        after = state.append(Batch(plan, known.epoch, tuple(writes)))._replace(
            bases=(*state.bases, basis),
            made=state.made + 1,
            bad=bad,
            promised=frozenset(each for each in state.promised if each[3] not in gone),
        )
        if nominates:
            yield Step("solver nominates", (me, *places, "evicting", victims), after)
        else:
            yield Step("solver decides", (me, *places), after)

    def _writes(
        self, made: list[Claim], displaced: list[Claim], *, nominates: bool
    ) -> list[tuple[str, int, Claim | None]]:
        family = CLAIM if self.rules.one_key or not nominates else APART
        writes: list[tuple[str, int, Claim | None]] = [(family, claim.name, claim) for claim in made]
        keys = {claim.name for claim in made}
        for claim in displaced:
            if claim.name not in keys:
                keys.add(claim.name)
                writes.append((CLAIM if self.rules.one_key else APART, claim.name, None))
        if not self.rules.one_key and not nominates:
            writes += [(APART, claim.name, None) for claim in made if self.known.apart[claim.name][1]]
        return writes

    def _accounts(self, made: list[Claim], victims: tuple[tuple[int, int], ...] | None) -> set[int]:
        know = self.know
        if victims is not None and not self.rules.stamps:
            return set()
        accounts = {at for at, mask in enumerate(know.node_masks) for claim in made if claim.place & mask}
        if self.world.quota:
            accounts.add(know.quota_account)
        touched = {victim for victim, _ in victims or ()} | {claim.name for claim in made}
        if self.rules.gang_stamp and any(name in self.world.victim_gang for name in touched):
            accounts.add(know.gang_account)
        return accounts
