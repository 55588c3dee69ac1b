"""cluster-writer: its Lease, plans that begin, binds, epochs, marks that are taken back, letting go."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.evictions import evicting
from tests.model.evictions.knowledge import Knowledge
from tests.model.evictions.state import ACTIVE, RAISING, STANDBY, Batch, Claim, Known, Pods, State, Step


def steps(know: Knowledge, state: State, w: int) -> Iterator[Step]:
    """Everything that this writer may do next."""
    me, rules = state.writers[w], know.rules
    now = know.fold(state.ledger)
    if now != me.known:
        kept = me.remembered if now.epoch <= me.known.epoch else frozenset()
        yield Step("writer reads LEDGER", (w,), state.writer(w, known=now, remembered=kept | decisions(know, now)))
    if me.mode == STANDBY:
        if state.lease[0] == w:
            yield Step("writer starts", (w,), start(know, state, w))
        elif state.left("takeover"):
            taken = state._replace(lease=(w, *state.lease[1:])).spend("takeover")
            yield Step("writer takes the Lease", (w,), start(know, taken, w))
        return
    if me.mode == RAISING:
        yield from _raising(know, state, w)
        return
    if state.lease[0] == w and rules.lease and is_loss(state, now):
        yield Step("writer raises the epoch", (w,), raise_epoch(know, state, w))
        return
    yield from _carry_out(know, state, w)


def _carry_out(know: Knowledge, state: State, w: int) -> Iterator[Step]:
    me, rules = state.writers[w], know.rules
    pods, through = know.view(state, know.world.solvers + w)
    holds = state.lease[0] == w
    mine = [each for each in know.claims(me.known) if each.epoch == me.epoch]
    if holds and me.known.epoch == me.epoch == state.lease[2]:
        fresh = {each.plan for each in mine if each.plan not in me.begun and not know.over(state, pods, through, each)}
        if fresh and (not rules.lease or fresh <= know.fold(state.ledger).plans):
            newest = max(fresh | {state.lease[1]})
            after = state._replace(lease=(w, newest, state.lease[2])).writer(w, begun=me.begun | fresh)
            yield Step("writer records plans", (w, *sorted(fresh)), after)
    plans: dict[int, list[Claim]] = {}
    for each in mine:
        if each.plan in me.begun and through >= state.bases[each.plan]:
            if each.nominates:
                plans.setdefault(each.plan, []).append(each)
            else:
                yield from _bind(know, state, w, pods, through, each)
    for members in plans.values():
        yield from evicting.steps(know, state, w, pods, members)
    if holds and me.epoch == state.lease[2]:
        if rules.unmarked:
            yield from _spare(know, state, w, pods, through, mine)
        if rules.let_go and state.left("patience"):
            yield from _let_go(know, state, w, pods, mine)


def _spare(know: Knowledge, state: State, w: int, pods: Pods, through: int, mine: list[Claim]) -> Iterator[Step]:
    """Marks whose nomination does not stand are taken back."""
    current = {each.plan for each in mine if each.nominates and not know.over(state, pods, through, each)}
    listed = {(each.plan, victim) for each in mine if each.plan in current for victim in each.victims}
    for name, pod in enumerate(pods):
        is_marked = pod and pod.mark and not pod.ends and state.pods[name] == pod
        if pod and is_marked and (pod.mark[0], (name, pod.uid)) not in listed:
            yield Step("writer spares", (w, name), state.change(name, mark=()))


def _let_go(know: Knowledge, state: State, w: int, pods: Pods, mine: list[Claim]) -> Iterator[Step]:
    """Plans of which a marked victim stays past its grace period."""
    for name, pod in enumerate(pods):
        if not pod or pod.place or state.pods[name] != pod:
            continue
        if any((c.name, c.uid, c.attempt, c.nominates) == (name, pod.uid, pod.attempt, 0) for c in mine):
            continue
        me = know.who(name, pod.uid)
        stays = {
            other.mark[0]
            for at, other in enumerate(pods)
            if other and other.ends and at in know.world.stuck and other.mark and other.mark[1] == me
        }
        for plan in sorted(stays - set(pod.let_go)):
            if know.rules.state_let_go or any(each.plan == plan for each in mine):
                after = evicting.let(know, state.spend("patience"), name, plan)
                yield Step("writer gives up", (w, name, evicting.STAYS), after)


def decisions(know: Knowledge, known: Known) -> frozenset[Claim]:
    """What R11 remembers."""
    return frozenset(each for each in know.claims(known) if not each.nominates)


def start(know: Knowledge, state: State, w: int) -> State:
    """It has read LEDGER to its end and compares it with the Lease."""
    now = know.fold(state.ledger)
    if know.rules.lease and is_loss(state, now):
        return raise_epoch(know, state, w)
    remembered = decisions(know, now)
    return state.writer(w, mode=ACTIVE, known=now, remembered=remembered, begun=frozenset(), epoch=state.lease[2])


def is_loss(state: State, now: Known) -> bool:
    """LEDGER and Lease disagree (R10)."""
    return now.epoch != state.lease[2] or bool(state.lease[1] and state.lease[1] not in now.plans)


def raise_epoch(know: Knowledge, state: State, w: int) -> State:
    """The Lease says so first; then pods that are not bound are fenced, one after the other."""
    epoch = state.lease[2] + 1
    bad = state.bad or ("" if state.lost else "an epoch raised without a loss")
    todo = tuple(name for name in know.names if state.pods[name])
    after = state._replace(lease=(w, 0, epoch), bad=bad)
    return after.writer(w, mode=RAISING, epoch=epoch, todo=todo, begun=frozenset())


def _raising(know: Knowledge, state: State, w: int) -> Iterator[Step]:
    me = state.writers[w]
    if me.todo:
        name = me.todo[0]
        pod = state.pods[name]
        after = state.change(name, attempt=pod.attempt + 1) if pod and not pod.place else state
        yield Step("writer fences", (w, name), after.writer(w, todo=me.todo[1:]))
    elif state.lease[0] == w and state.lease[2] == me.epoch:
        after = state.append(Batch(0, me.epoch, (), len(state.bases)))
        after = after._replace(bases=(*state.bases, len(state.log)))
        known = know.fold(after.ledger)
        yield Step("writer writes the epoch", (w,), after.writer(w, mode=ACTIVE, known=known, remembered=frozenset()))
    else:
        yield Step("writer finds the Lease lost", (w,), state.writer(w, mode=STANDBY, todo=()))


def _bind(know: Knowledge, state: State, w: int, pods: Pods, through: int, claim: Claim) -> Iterator[Step]:
    pod, me = pods[claim.name], state.writers[w]
    if not know.is_current(pod, claim):
        return
    assert pod
    clash = any(each and each.place & claim.place and each.uid != claim.uid for each in pods)
    for other in me.remembered:
        seen = pods[other.name]
        is_elsewhere = seen and seen.uid == other.uid and seen.place and not seen.place & claim.place
        if other.place & claim.place and other.uid != claim.uid and not is_elsewhere:
            clash = clash or not know.settled(state, pods, through, other)
    if clash:
        is_at_end = state.views[know.world.solvers + w] == len(state.log)
        if is_at_end and state.lease[0] == w and state.lease[2] == me.epoch and know.rules.lease:
            yield Step("writer raises the epoch", (w,), raise_epoch(know, state, w))
        return
    request = ("bind", claim.name, claim.uid, pod.version, claim.place, claim.plan)
    if request not in state.net:
        yield Step("writer sends bind", (w, claim.name, claim.place), state._replace(net=state.net | {request}))
