"""cluster-writer: the Lease and the waves. A new epoch is in `epochs.py`, what follows for each decision in `binds.py`.

A wave takes every committed plan that was read and not begun, checks strict gangs (R9), asks the leader and writes the
newest plan into the Lease (R10). A step here is one call: between two of them anything else may happen.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import binds, epochs
from tests.model.knowledge import Knowledge, Seen
from tests.model.state import (
    ACTIVE,
    COMPARING,
    PLAN,
    RAISING,
    STANDBY,
    Decision,
    Ledger,
    Look,
    Message,
    State,
    Step,
    View,
)


def steps(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    """Everything that this writer may do next."""
    yield from _follow(know, state, me)
    if not know.rules.recorded:
        yield from binds.steps(know, state, me)
        return
    yield from _hold_the_lease(know, state, me)
    mode = state.writers[me].mode
    if mode == RAISING:
        yield from epochs.go_on(know, state, me)
    elif mode == ACTIVE and state.lease.holder == me:
        yield from _wave(know, state, me)
        if state.left("prunes"):
            yield from _prune(know, state, me)
    yield from binds.steps(know, state, me)


def _follow(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    """It remembers the committed decisions that it has read, until a new epoch begins."""
    writer = state.writers[me]
    ledger = know.fold(state.readable(know.world.solvers + me))
    if ledger == writer.ledger:
        return
    old = writer.remembered if ledger.epoch <= writer.ledger.epoch else frozenset()
    read = {d for _, d in ledger.decisions if d and know.counts(ledger, d.plan)}
    after = writer._replace(ledger=ledger, remembered=old | read)
    yield Step("writer reads LEDGER", (me,), state.become(me, after))


# --- the Lease --------------------------------------------------------------------------------------------------------


def _hold_the_lease(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    writer, lease = state.writers[me], state.lease
    if writer.mode == STANDBY:
        if lease.holder == me:
            yield Step("writer starts", (me,), state.become(me, writer._replace(mode=COMPARING)))
        elif state.left("takeover"):
            after = state._replace(lease=lease._replace(holder=me)).spend("takeover")
            yield Step("writer takes the Lease", (me,), after.become(me, writer._replace(mode=COMPARING)))
    elif lease.holder != me:
        # A writer that is raising the epoch goes on: the next guarded write tells it.
        if writer.mode != RAISING:
            yield Step("writer finds the Lease lost", (me,), state.become(me, epochs.stand_by(writer)))
    elif writer.mode in (COMPARING, ACTIVE):
        now = know.fold(state.ledger)
        if now.epoch != lease.epoch or (lease.plan and not know.counts(now, lease.plan)):
            yield epochs.begin(know, state, me)
        elif writer.mode == COMPARING:
            active = writer._replace(mode=ACTIVE, epoch=lease.epoch, look=None)
            yield Step("writer is active", (me,), state.become(me, active))


# --- waves ------------------------------------------------------------------------------------------------------------


def _wave(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    writer, lease = state.writers[me], state.lease
    ready: list[int] = []
    for plan in _fresh(know, state, me):
        members = _members(writer.ledger, plan)
        verdict = _check_gang(know, state, me, members)
        if verdict is None:
            ready.append(plan)
        elif verdict:
            yield _give_gang_up(know, state, me, members)
    if not ready or writer.ledger.epoch != lease.epoch:
        return
    if know.rules.leader_look and lease.plan and not know.counts(writer.ledger, lease.plan):
        return  # a wave of one that lags would make the Lease forget what it has not read
    newest = max([*ready, *([lease.plan] if lease.plan else [])], key=lambda p: writer.ledger.plan(p).sequence)
    look = Look(newest, lease.plan, frozenset(ready))
    if writer.look is not None and writer.look.before == lease.plan:
        yield _record(state, me, writer.look)
    if writer.look != look:
        now = know.fold(state.ledger)
        told = all(know.counts(now, plan) for plan in (lease.plan, newest) if plan)
        if not know.rules.leader_look or (now.epoch == lease.epoch and told):
            yield Step("writer looks at the leader", (me, newest), state.become(me, writer._replace(look=look)))


def _record(state: State, me: int, look: Look) -> Step:
    """The Lease takes the newest plan, since it has not changed since the look."""
    writer = state.writers[me]
    after = state._replace(lease=state.lease._replace(plan=look.newest))
    begun = writer._replace(begun=writer.begun | look.plans, look=None)
    return Step("writer records plan", (me, look.newest), after.become(me, begun))


def _fresh(know: Knowledge, state: State, me: int) -> list[int]:
    """Committed plans that were read and neither begun nor all over, oldest first."""
    writer = state.writers[me]
    view = state.views[know.world.solvers + me]
    plans = {
        d.plan
        for _, d in writer.ledger.decisions
        if d and d.plan not in writer.begun and know.counts(writer.ledger, d.plan) and not _over(know, state, view, d)
    }
    if not know.rules.older_under_way and state.lease.plan:
        recorded = writer.ledger.plan(state.lease.plan).sequence
        plans = {plan for plan in plans if writer.ledger.plan(plan).sequence > recorded}
    return sorted(plans, key=lambda plan: writer.ledger.plan(plan).sequence)


def _over(know: Knowledge, state: State, view: View, decision: Decision) -> bool:
    """Nothing is left to do: gone, bound, or withdrawn."""
    seen = know.seen(state, view, decision.name)
    is_past = seen.uid == decision.uid and (seen.slot >= 0 or seen.attempt > decision.attempt)
    return is_past or know.gone(state, view, decision)


def _members(ledger: Ledger, plan: int) -> list[Decision]:
    return [d for _, d in ledger.decisions if d and d.plan == plan]


def _check_gang(know: Knowledge, state: State, me: int, members: list[Decision]) -> bool | None:
    """R9: None: begin; False: wait for the view; True: give the gang up."""
    size = members[0].size
    if not size or not know.rules.gangs_whole:
        return None
    view = state.views[know.world.solvers + me]
    seen = [know.seen(state, view, d.name) for d in members]
    if any(pod.slot >= 0 and pod.plan == members[0].plan for pod in seen):
        return None
    if know.rules.basis and any(view.through < d.basis for d in members):
        return False
    if know.rules.late_member and any(_is_to_come(know, state, view, d, p) for d, p in zip(members, seen, strict=True)):
        return False
    current = sum(
        (pod.uid, pod.attempt) == (d.uid, d.attempt) and pod.slot < 0 for d, pod in zip(members, seen, strict=True)
    )
    return None if current == len(members) == size else True


def _is_to_come(know: Knowledge, state: State, view: View, decision: Decision, seen: Seen) -> bool:
    """The view is late for this member alone: a pod may be decided from a message that is newer than the basis."""
    if seen.uid != decision.uid:
        return not know.gone(state, view, decision)
    return seen.attempt < decision.attempt


def _give_gang_up(know: Knowledge, state: State, me: int, members: list[Decision]) -> Step:
    """Those of its members that are there will be withdrawn."""
    writer, plan = state.writers[me], members[0].plan
    now = know.fold(state.ledger)
    is_whole = len(members) == members[0].size and all(know.is_open(state, now, d) for d in members)
    bad = state.bad or ("a gang given up for nothing" if is_whole else "")
    given_up = writer.given_up | {d.id for d in members}
    after = writer._replace(begun=writer.begun | {plan}, given_up=given_up, look=None)
    return Step("writer gives gang up", (me, plan), state._replace(bad=bad).become(me, after))


def _prune(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    """The entry of a plan without decisions is deleted, never the Lease's nor a newer one."""
    ledger = state.writers[me].ledger
    now = know.fold(state.ledger)
    recorded = ledger.plan(state.lease.plan).sequence
    named = {d.plan for _, d in ledger.decisions if d}
    for entry in ledger.plans:
        if entry.status and entry.plan not in named and entry.sequence < recorded and entry == now.plan(entry.plan):
            after = know.append(state, [Message(PLAN, entry.plan)])
            yield Step("writer forgets plan", (me, entry.plan), after.spend("prunes"))
