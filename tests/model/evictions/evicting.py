"""A nomination that was begun: noted on the beneficiary, victims marked, a look, deletions; or it is given up."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.evictions.judging import stay, truth
from tests.model.evictions.knowledge import Knowledge
from tests.model.evictions.state import Claim, Pod, Pods, State, Step

STAYS = "a victim stays"


def steps(know: Knowledge, state: State, w: int, pods: Pods, members: list[Claim]) -> Iterator[Step]:
    """What the writer may do next about the nominations of one plan."""
    me, rules, world = state.writers[w], know.rules, know.world
    claim = members[0]
    holds = state.lease[0] == w and state.lease[2] == me.epoch
    current = [each for each in members if know.is_current(pods[each.name], each)]
    if not current:
        return
    is_whole = len(current) == len(members) == claim.size
    victims: dict[int, Pod] = {}
    for name, uid in claim.victims:
        pod = pods[name]
        if pod and (pod.uid == uid or not rules.uid):
            victims[name] = pod
    waits = [name for name, pod in victims.items() if not pod.ends]
    why = _why_not(know, state, pods, members, victims, waits, is_whole=is_whole)
    if why and holds:
        yield from _give_up(know, state, w, pods, current, why)
    if holds and state.left("patience"):
        ends_never = any(pod.ends and name in world.stuck for name, pod in victims.items())
        is_refused = waits and world.polite and sum(1 for each in waits if each in world.budgeted) > state.pdb
        if (rules.let_go and rules.plan_let_go and ends_never) or is_refused:
            yield from _give_up(know, state.spend("patience"), w, pods, current, STAYS)
    if why or not waits or (rules.one_set and _has_other_victims(know, pods, current)):
        return
    if rules.noted:
        for each in current:
            pod = pods[each.name]
            assert pod
            if pod.noted != (each.plan, each.place):
                if state.pods[each.name] == pod:
                    noted = state.change(each.name, noted=(each.plan, each.place))
                    yield Step("writer notes the nomination", (w, each.name), noted)
                return
    yield from _evict(know, state, w, pods, members, victims, waits, is_whole=is_whole)


def _has_other_victims(know: Knowledge, pods: Pods, current: list[Claim]) -> bool:
    """Pods are marked for it by a plan that it has not let go: they leave, or are spared, first."""
    for claim in current:
        beneficiary = pods[claim.name]
        assert beneficiary
        for other in pods:
            is_marked = other and other.mark and other.mark[1] == know.who(claim.name, claim.uid)
            if other and is_marked and other.mark[0] not in (claim.plan, *beneficiary.let_go):
                return True
    return False


def _why_not(
    know: Knowledge,
    state: State,
    pods: Pods,
    members: list[Claim],
    victims: dict[int, Pod],
    waits: list[int],
    *,
    is_whole: bool,
) -> str:
    rules, gang = know.rules, know.world.victim_gang
    if not is_whole and rules.whole:
        return "a member is missing"
    if any(each.place & state.unfit for each in members) and rules.works:
        return "the place is unfit"
    if any(victims[each].guarded for each in waits):
        return "a victim is protected"
    if rules.gang_whole and any(each in gang for each in waits):
        for each in gang:
            pod = pods[each]
            if pod and pod.place and not pod.ends and each not in victims:
                return "a victim's gang has grown"
    return ""


def _evict(
    know: Knowledge,
    state: State,
    w: int,
    pods: Pods,
    members: list[Claim],
    victims: dict[int, Pod],
    waits: list[int],
    *,
    is_whole: bool,
) -> Iterator[Step]:
    rules, world, claim = know.rules, know.world, members[0]
    mark = (claim.plan, know.who(claim.name, claim.uid))
    ready = waits
    if rules.marked:
        for name in waits:
            request = ("mark", name, victims[name].uid, victims[name].version, mark)
            if not victims[name].mark and request not in state.net:
                yield Step("writer marks", (w, name), state._replace(net=state.net | {request}))
        if world.answers:
            victims = {name: _answered(state.pods[name], pod, mark) for name, pod in victims.items()}
        ready = [name for name in waits if victims[name].mark == mark]
        if rules.all_marked and len(ready) < len(waits):
            return
    if world.polite and any(name in world.budgeted for name in ready) and not state.pdb:
        return  # refused: tried again later
    if not ready or (rules.look and not _looks(know, state, w, members)):
        return
    refused = tuple(victims[name].uid for name in ready if name in world.policed)
    if refused and rules.asked:
        yield from _give_up(know, state, w, pods, members, "a policy protects a victim", refused)
        return
    wrong = truth(know, state, members, is_whole=is_whole)
    whose = tuple((each.name, each.uid) for each in members)
    places = tuple((each.name, each.place) for each in members)
    for together in _turns(ready, world.victim_gang):
        sent = frozenset(
            (
                "delete",
                name,
                victims[name].uid if rules.uid else 0,
                victims[name].version if rules.version else 0,
                mark,
                whose,
                dict(claim.victims)[name],
                places,
                wrong,
            )
            for name in together
        )
        if not sent <= state.net:
            yield Step("writer sends deletions", (w, *together), state._replace(net=state.net | sent))
            return


def _turns(ready: list[int], gang: tuple[int, ...]) -> list[list[int]]:
    """Before each deletion the writer looks again; a gang leaves whole, so its members go at once."""
    whole = [name for name in ready if name in gang]
    return ([whole] if whole else []) + [[name] for name in ready if name not in gang]


def _answered(there: Pod | None, seen: Pod, mark: tuple[int, int]) -> Pod:
    """A victim as the answer to the mark showed it."""
    return there if there and there.mark == mark and there.uid == seen.uid else seen


def _looks(know: Knowledge, state: State, w: int, members: list[Claim]) -> bool:
    """After the marks: the Lease, the leader's ledger, the beneficiary at the API server."""
    me, now, rules, world = state.writers[w], know.fold(state.ledger), know.rules, know.world
    if state.lease[0] != w or state.lease[2] != me.epoch or now.epoch != me.epoch:
        return False
    there = know.claims(now)
    wanted = members if rules.whole else [each for each in members if know.is_current(state.pods[each.name], each)]
    for each in wanted:
        pod = state.pods[each.name]
        if each not in there or not know.is_current(pod, each):
            return False
        if rules.noted and pod and pod.noted != (each.plan, each.place):
            return False
    if rules.works and any(each.place & state.unfit for each in members):
        return False
    budgeted = sum(1 for name in stay(state, members[0]) if name in world.budgeted)
    if rules.budgets and world.polite and budgeted > state.pdb:
        return False
    return bool(wanted)


def _give_up(
    know: Knowledge,
    state: State,
    w: int,
    pods: Pods,
    current: list[Claim],
    why: str,
    refused: tuple[int, ...] = (),
) -> Iterator[Step]:
    """By a patch of each beneficiary, guarded by its version: the next attempt, nominated nowhere, the plan let go, and
    whose deletion was refused."""
    for each in current:
        pod = pods[each.name]
        assert pod
        if state.pods[each.name] == pod:
            if each.name in know.world.apart and know.rules.other_kind and pod.noted:
                yield Step("writer takes the note back", (w, each.name, why), state.change(each.name, noted=()))
            else:
                yield Step("writer gives up", (w, each.name, why), let(know, state, each.name, each.plan, refused))


def let(know: Knowledge, state: State, name: int, plan: int, refused: tuple[int, ...] = ()) -> State:
    """The beneficiary lets the plan go."""
    pod = state.pods[name]
    assert pod
    basis = pod.basis
    if name in know.world.apart and know.rules.other_kind:
        basis, state = len(state.bases), state._replace(bases=(*state.bases, len(state.log)))
    rest = frozenset(each for each in state.promised if not (each[0] == name and each[3] == plan))
    given_up = (*pod.let_go, plan)
    refused = tuple(sorted({*pod.refused, *refused}))
    after = state.change(name, attempt=pod.attempt + 1, noted=(), let_go=given_up, basis=basis, refused=refused)
    return after._replace(promised=rest)
