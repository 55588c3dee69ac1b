"""What a batch, a look or a landing does wrong, by what is so: nobody but the model knows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.model.evictions.knowledge import Knowledge
from tests.model.evictions.state import Claim, Known, Pod, State

FIRST_UIDS = 8
"""Names have their uids in steps of this; the first of each is one above."""


def overlap(
    know: Knowledge,
    state: State,
    now: Known,
    made: list[Claim],
    displaced: Iterable[Claim],
    victims: tuple[tuple[int, int], ...] | None,
) -> str:
    """Whether a batch takes what another has."""
    prio, leaving, given = know.world.prio, set(victims or ()), list(displaced)
    names = {claim.name for claim in made}
    for claim in made:
        if claim.place & state.unfit:
            continue
        for name, pod in enumerate(state.pods):
            stays = pod and not pod.ends and (name, pod.uid) not in leaving
            if pod and stays and pod.place & claim.place and pod.uid != claim.uid:
                return "planned where a pod stays"
        for other in know.claims(now):
            pod = state.pods[other.name]
            if not pod or pod.uid != other.uid or pod.attempt > other.attempt or pod.place or other in given:
                continue
            if other.name == claim.name:
                if not other.nominates:
                    return "a pod planned twice"
                continue
            if other.name in names or not other.place & claim.place:
                continue
            if not other.nominates:
                return "planned over a decision"
            if prio[other.name] >= prio[claim.name]:
                return "a thief is decided in a nominated place"
    return _quota(know, state, now, made, given, victims) if know.world.quota else ""


def _quota(
    know: Knowledge,
    state: State,
    now: Known,
    made: list[Claim],
    displaced: list[Claim],
    victims: tuple[tuple[int, int], ...] | None,
) -> str:
    prio, nominates = know.world.prio, victims is not None
    names = {claim.name for claim in made}
    total = sum(know.width[claim.name] for claim in made)
    lowest = min(prio[claim.name] for claim in made)
    gone = set(victims or ())
    if nominates:
        gone |= {victim for other in know.claims(now) if other.nominates for victim in other.victims}
    for name, pod in enumerate(state.pods):
        if pod and pod.place and (name, pod.uid) not in gone and not (pod.ends and nominates):
            total += know.width[name]
    for other in know.claims(now):
        pod = state.pods[other.name]
        is_open = pod and pod.uid == other.uid and pod.attempt == other.attempt and not pod.place
        counts = not other.nominates or prio[other.name] >= lowest
        if is_open and counts and other.name not in names and other not in displaced:
            total += know.width[other.name]
    return "quota taken that another's victims free" if total > know.world.quota else ""


def truth(know: Knowledge, state: State, members: list[Claim], *, is_whole: bool) -> str:
    """What is wrong with evicting now."""
    world, now, claim = know.world, know.fold(state.ledger), members[0]
    for member in members:
        pod = state.pods[member.name]
        if not pod or pod.uid != member.uid:
            return "evicted for a beneficiary that was gone"
        if pod.attempt != member.attempt or pod.place:
            return "evicted for a beneficiary that was past it"
        if member.place & state.unfit:
            return "evicted for a place that is unfit"
        for other in know.claims(now):
            pod = state.pods[other.name]
            is_open = pod and pod.uid == other.uid and pod.attempt == other.attempt and not pod.place
            if other.plan != member.plan and other.place & member.place and is_open:
                return "evicted for a place that another has"
    if len(members) < claim.size or not is_whole:
        return "evicted for half a gang"
    if world.quota:
        leaving = {victim for other in know.claims(now) if other.nominates for victim in other.victims}
        waiting = {pod.uid: pod.attempt for pod in state.pods if pod and not pod.place}
        standing = [other for other in know.claims(now) if waiting.get(other.uid) == other.attempt]
        staying = tuple(None if pod and pod.ends else pod for pod in state.pods)
        if know.used(staying, standing, -1, leaving, ()) > world.quota:
            return "evicted for quota that another has"
    if world.polite and sum(1 for name in stay(state, claim) if name in world.budgeted) > state.pdb:
        return "evicted although a budget spares another victim"
    if any(name in world.policed for name in stay(state, claim)):
        return "evicted although a policy protects another victim"
    mark = (claim.plan, know.who(claim.name, claim.uid))
    for name in stay(state, claim):
        if state.pods[name].mark != mark and know.rules.marked:  # type: ignore[union-attr]
            return "evicted although another victim stays"
    return ""


def stay(state: State, claim: Claim) -> list[int]:
    """The victims that are there and not leaving."""
    found = []
    for name, uid in claim.victims:
        pod = state.pods[name]
        if pod and pod.uid == uid and not pod.ends:
            found.append(name)
    return found


def deletion(know: Knowledge, state: State, request: tuple[Any, ...], pod: Pod) -> str:
    """What is wrong with a deletion that lands; `pod` is whom it lands on."""
    _, name, _, _, mark, members, meant, _, bad = request
    world, prio = know.world, know.world.prio
    if pod.uid != meant:
        bad = bad or "a successor evicted"
    if pod.guarded:
        bad = bad or "a protected pod evicted"
    standing = know.claims(know.fold(state.ledger))
    decided = [each for each in standing if each.epoch == state.lease[2] and not each.nominates]
    for beneficiary, uid in members:
        other = state.pods[beneficiary]
        is_there = bool(other and other.uid == uid)
        if is_there and (other.place or any(c.uid == uid and c.attempt == other.attempt for c in decided)):  # type: ignore[union-attr]
            bad = bad or "evicted for a beneficiary that has a place already"
        if prio[name] > prio[beneficiary]:
            bad = bad or "evicted for a beneficiary that is not above it"
        if is_there:
            bad = bad or _replaced(state, standing, (name, pod.uid), other, mark)  # type: ignore[arg-type]
    if name in world.victim_gang and not state.lost:
        for each in world.victim_gang:
            other = state.pods[each]
            is_going = any(sent[0] == "delete" and sent[1] == each for sent in state.net)
            is_left = other and other.place and not other.ends and other.uid == each * FIRST_UIDS + 1
            if each != name and is_left and not is_going:
                bad = bad or "half a victim gang is left"
    if world.once and any(of == mark[1] and plan != mark[0] for of, plan in state.paid):
        bad = bad or "victims of two plans for one beneficiary"
    return str(bad)


def _replaced(
    state: State, standing: list[Claim], victim: tuple[int, int], beneficiary: Pod, mark: tuple[int, int]
) -> str:
    is_wanted = any(each.nominates and victim in each.victims for each in standing)
    has_claim = any(each.uid == beneficiary.uid and each.attempt == beneficiary.attempt for each in standing)
    if not is_wanted and not state.lost and has_claim:
        return "evicted for a nomination that was replaced"
    for other in state.pods:
        is_of_another = other and other.ends and other.mark and other.mark[1] == mark[1] and other.mark[0] != mark[0]
        if other and is_of_another and other.mark[0] not in beneficiary.let_go:
            return "two victim sets for one beneficiary"
    return ""
