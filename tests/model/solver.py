"""placement-solver: reads LEDGER, plans, commits, stages a gang, gives up what nobody finishes, tidies.

A solver knows only its own view of STATE and what it has read of LEDGER. The server compares what a batch expects with
what is so.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.knowledge import Knowledge
from tests.model.state import (
    ABORTED,
    ACCOUNT,
    COMMITTED,
    DECISION,
    OPEN,
    PLAN,
    Decision,
    Ledger,
    Message,
    Stage,
    State,
    Step,
)


def steps(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    """Everything that this solver may do next."""
    yield from _follow(know, state, me)
    known, view = state.known[me], state.views[me]
    if not known.epoch or (know.rules.epoch_view and view.through < known.pods_version):
        return
    stage = state.stages[me]
    if stage is not None:
        yield from _go_on(know, state, me, stage)
    elif state.next_id <= know.world.decisions:
        yield from _plan(know, state, me)
    if state.left("aborts"):
        yield from _give_up(know, state, me)
    if state.left("tidies"):
        yield from _tidy(know, state, me)


def _follow(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    ledger = state.readable(me)
    end = len(ledger)
    for count in range(1 if know.world.half_read else end, end + 1):
        read = know.fold(ledger[:count])
        if read != state.known[me]:
            known = (*state.known[:me], read, *state.known[me + 1 :])
            yield Step("solver reads LEDGER", (me, count), state._replace(known=known))


# --- plans ------------------------------------------------------------------------------------------------------------


def _plan(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    known, view = state.known[me], state.views[me]
    taken = {slot for _, slot in know.holders(state, view, known)}
    free = [slot for slot in know.slots if slot not in taken]
    pending = [name for name in know.names if know.pending(state, view, known, name)]
    for name in pending:
        if know.world.is_gang and name < 2 and know.seen(state, view, 1 - name).slot < 0:
            continue  # only what is left over of a gang that has begun goes alone
        size = 1 if know.world.is_gang and name < 2 else 0
        for slot in free:
            decision = _decide(know, state, me, name, slot, state.next_id, state.next_id, size)
            yield from _commit(know, state, me, (decision,), known)
    if know.world.is_gang and 0 in pending and 1 in pending:
        for first in free:
            for second in free:
                if first != second:
                    yield from _commit_gang(know, state, me, first, second)


def _decide(
    know: Knowledge, state: State, me: int, name: int, slot: int, number: int, plan: int, size: int
) -> Decision:
    view = state.views[me]
    seen = know.seen(state, view, name)
    epoch = state.known[me].epoch
    return Decision(number, name, seen.uid, seen.attempt, slot, view.held[name], view.through, plan, size, epoch)


def _commit_gang(know: Knowledge, state: State, me: int, first: int, second: int) -> Iterator[Step]:
    plan = state.next_id
    members = (
        _decide(know, state, me, 0, first, plan, plan, 2),
        _decide(know, state, me, 1, second, plan + 1, plan, 2),
    )
    if know.world.is_staged:
        yield from _commit(know, state, me, members[:1], state.known[me], rest=members[1])
    else:
        yield from _commit(know, state, me, members, state.known[me])


def _commit(
    know: Knowledge,
    state: State,
    me: int,
    decisions: tuple[Decision, ...],
    expected: Ledger,
    *,
    rest: Decision | None = None,
    is_later: bool = False,
) -> Iterator[Step]:
    """A batch, if the server accepts it. `expected`: what its sequences were taken from; `rest`: a stage follows."""
    world = know.world
    if world.quota:
        held = know.holders(state, state.views[me], state.known[me])
        if len({uid for uid, _ in held} | {d.uid for d in (*decisions, *([rest] if rest else []))}) > world.quota:
            return
    accounts = sorted({know.nodes.index(world.nodes[d.slot]) for d in decisions})
    if world.quota:
        accounts.append(know.accounts - 1)
    if not _is_accepted(know, state, decisions, accounts, expected):
        return
    plan = decisions[0].plan
    is_staged = rest is not None or is_later
    ordered = [Message(DECISION, d.name, decision=d) for d in decisions]
    stamps = [Message(ACCOUNT, account) for account in accounts]
    batch = ordered + stamps if know.rules.decisions_first else stamps + ordered
    batch.append(Message(PLAN, plan, OPEN if is_staged else COMMITTED))
    after = know.append(state, batch)._replace(bad=state.bad or know.overlap(state, decisions))
    if is_staged:
        number = 0 if is_later else 2
        first = len(state.ledger) + (len(ordered) if know.rules.decisions_first else 0) + 1
        written = {account: first + offset for offset, account in enumerate(accounts)}
        stood_on = tuple(written.get(account, sequence) for account, sequence in enumerate(expected.stamps))
        stage = Stage(plan, len(after.ledger), rest, expected._replace(stamps=stood_on))
        after = after._replace(stages=(*after.stages[:me], stage, *after.stages[me + 1 :]))
    else:
        number = len(decisions)
    details = (me, *((d.name, d.uid, d.slot) for d in decisions))
    yield Step("solver commits", details, after._replace(next_id=state.next_id + number))


def _is_accepted(
    know: Knowledge, state: State, decisions: tuple[Decision, ...], accounts: list[int], expected: Ledger
) -> bool:
    """The server compares sequences (R1). What goes into a dead epoch is read by nobody, and left out."""
    now = know.fold(state.ledger)
    if now.epoch not in (0, decisions[0].epoch):
        return False
    if know.rules.account_sequences and any(expected.stamps[a] != now.stamps[a] for a in accounts):
        return False
    return not know.rules.decision_sequences or all(
        expected.decisions[d.name].sequence == now.decisions[d.name].sequence for d in decisions
    )


# --- stages -----------------------------------------------------------------------------------------------------------


def _go_on(know: Knowledge, state: State, me: int, stage: Stage) -> Iterator[Step]:
    """The next stage. It was planned with the first, so it expects what was known then, and what it wrote itself."""
    over = state._replace(stages=(*state.stages[:me], None, *state.stages[me + 1 :]))
    if state.left("forget"):
        yield Step("solver starts anew", (me,), over.spend("forget"))
    now = know.fold(state.ledger)
    if know.rules.plan_chain and now.plan(stage.plan).sequence != stage.entry_sequence:
        yield Step("stage refused", (me, stage.plan), over)
    elif stage.rest is None:
        done = know.append(over, [Message(PLAN, stage.plan, COMMITTED)])
        yield Step("solver writes the last word", (me, stage.plan), done)
    else:
        expected = stage.known if know.rules.stage_sequences else _blind(stage, state.known[me])
        sent = list(_commit(know, state, me, (stage.rest,), expected, is_later=True))
        yield from sent or [Step("stage refused", (me, stage.plan), over)]


def _blind(stage: Stage, known: Ledger) -> Ledger:
    """What a stage expects that looks only when it is sent: the newest that was read, and what it wrote itself."""
    stamps = tuple(max(own, read) for own, read in zip(stage.known.stamps, known.stamps, strict=True))
    return known._replace(stamps=stamps)


def _give_up(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    """A plan that nobody seems to finish is aborted; the clock says when to try, R8 decides."""
    known = state.known[me]
    now = know.fold(state.ledger)
    for plan in sorted({held.decision.plan for held in known.decisions if held.decision}):
        if know.rules.ended_stays and not know.is_unfinished(known, plan):
            continue
        if not know.rules.abort_is_written:
            dropped = tuple(
                None if m is not None and m.decision is not None and m.decision.plan == plan else m
                for m in state.ledger
            )
            yield Step("solver gives plan up", (me, plan), state._replace(ledger=dropped).spend("aborts"))
        elif now.plan(plan).sequence == known.plan(plan).sequence:
            after = know.append(state, [Message(PLAN, plan, ABORTED)])
            yield Step("solver gives plan up", (me, plan), after.spend("aborts"))


def _tidy(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    """A settled decision is deleted, expecting its sequence (R3)."""
    known, view = state.known[me], state.views[me]
    now = know.fold(state.ledger)
    for name, (sequence, decision) in enumerate(known.decisions):
        if decision is None or now.decisions[name].sequence != sequence:
            continue
        seen = know.seen(state, view, name)
        is_bound = seen.uid == decision.uid and seen.slot >= 0
        if know.settled(state, view, known, decision) or (is_bound and not know.rules.held_until_settled):
            after = know.append(state, [Message(DECISION, name)])
            yield Step("solver tidies", (me, decision.id), after.spend("tidies"))
