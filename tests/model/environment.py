"""Everybody else: users, the API server's answers, followers of STATE, and every fault."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.knowledge import Knowledge
from tests.model.state import EPOCH, NOWHERE, STANDBY, Ledger, Message, Request, State, Step, View, Writer


def steps(know: Knowledge, state: State) -> Iterator[Step]:
    """Everything that may happen apart from what solvers and writers do."""
    yield from _users(know, state)
    yield from _followers(know, state)
    yield from _api(know, state)
    yield from _faults(know, state)


# --- users and views --------------------------------------------------------------------------------------------------


def _users(know: Knowledge, state: State) -> Iterator[Step]:
    for name in know.names:
        pod = state.pods[name]
        if pod is None:
            if state.left("create"):
                generation = 1 + sum(1 for change in state.log if change.name == name and not change.uid)
                yield Step("user creates", (name,), state.store(name, name * 8 + generation).spend("create"))
            continue
        if state.left("delete"):
            yield Step("user deletes", (name,), state.store(name, 0).spend("delete"))
        if state.left("touch"):
            again = state.store(name, pod.uid, pod.attempt, pod.slot, pod.plan)
            yield Step("pod is updated", (name,), again.spend("touch"))


def _followers(know: Knowledge, state: State) -> Iterator[Step]:
    """Solvers first, then writers. In order, each at its own pace; superseded messages may be missed."""
    end = len(state.log)
    for who, view in enumerate(state.views):
        if view.left:
            for name in view.left:
                yield Step("view lists", (who, name), state.read(who, _listed(state, view, name)))
        elif view.position < end:
            at = view.position + 1
            name = state.log[at - 1].name
            through = at if view.through == view.position or at == end else view.through
            held = (*view.held[:name], at, *view.held[name + 1 :])
            yield Step("view reads", (who, at), state.read(who, View(at, through, held)))
            if know.world.skipping and any(change.name == name for change in state.log[at:]):
                yield Step("view misses", (who, at), state.read(who, view._replace(position=at)))


def _listed(state: State, view: View, name: int) -> View:
    """One name of a relist has arrived; with the last of them the view is complete."""
    last = max((i for i, change in enumerate(state.log[: view.position], 1) if change.name == name), default=0)
    held = (*view.held[:name], last, *view.held[name + 1 :])
    left = tuple(other for other in view.left if other != name)
    return View(view.position, view.through if left else view.position, held, left)


# --- the API server's answers -----------------------------------------------------------------------------------------


def _api(know: Knowledge, state: State) -> Iterator[Step]:
    for request in state.network:
        decision = request.decision
        gone = state._replace(network=state.network - {request})
        yield _answer(know, state, request, gone)
        if request.writer == NOWHERE:
            yield Step("bind is lost", (decision.id,), gone)
        elif state.left("timeout"):
            late = gone._replace(network=gone.network | {request._replace(writer=NOWHERE)}).spend("timeout")
            if know.rules.only_the_pod_gives_up:
                late = _judge_again(late, request)
            else:
                late = late._replace(failed=late.failed | {decision.id})
            yield Step("bind gets no answer", (request.writer, decision.id), late)


def _answer(know: Knowledge, state: State, request: Request, after: State) -> Step:
    """The API server carries a bind out if its guards hold (R5), and answers 409 if not."""
    decision = request.decision
    pod = state.pods[decision.name]
    details = (decision.name, decision.uid, decision.slot)
    is_same = pod is not None and (not know.rules.bind_uid or pod.uid == decision.uid)
    if pod is None or not is_same or pod.slot >= 0 or request.version not in (0, pod.version):
        if pod is not None and pod.uid == decision.uid and pod.slot < 0:
            after = _judge_again(after, request)
        return Step("bind is refused", details, after)
    if decision.name in know.world.reservations and not request.noted:
        noted = after.store(decision.name, pod.uid, pod.attempt)
        if request.writer != NOWHERE:
            version = len(noted.log) if know.rules.bind_version else 0
            second = Request(decision, version, request.writer, noted=True)
            noted = noted._replace(network=noted.network | {second})
        return Step("reservation is noted", details, noted)
    bound = after.store(decision.name, pod.uid, pod.attempt, decision.slot, decision.plan)
    if pod.uid != decision.uid:
        bound = bound._replace(bad="a successor bound by a decision for its predecessor")
    return Step("bind lands", details, bound)


def _judge_again(state: State, request: Request) -> State:
    """Whoever waits for the answer looks at the pod again."""
    if request.writer == NOWHERE:
        return state
    writer = state.writers[request.writer]
    return state.become(request.writer, writer._replace(sent=writer.sent - {request.decision.id}))


# --- faults -----------------------------------------------------------------------------------------------------------


def _faults(know: Knowledge, state: State) -> Iterator[Step]:
    if state.left("crash"):
        yield from _crashes(know, state)
    if state.left("tail"):
        for count in range(1, len(state.ledger)):
            yield Step("LEDGER loses its tail", (count,), _keeping(know, state, count).spend("tail"))
    if state.left("full") and len(state.ledger) > 1:
        # Without a Lease nobody would ever write an epoch again.
        rest: tuple[Message, ...] = () if know.rules.recorded else (Message(EPOCH, 0, 1),)
        yield Step("LEDGER is lost", (), state._replace(ledger=rest, kept=()).spend("full"))
    if state.left("stateloss"):
        empty = View(len(state.log), 0, (0,) * len(know.names), tuple(know.names))
        yield Step("STATE is lost", (), state._replace(views=(empty,) * len(state.views)).spend("stateloss"))


def _keeping(know: Knowledge, state: State, count: int) -> State:
    """LEDGER without its tail. Every connection stands: without R16 who had read the tail does not hear of its loss."""
    after = state._replace(ledger=state.ledger[:count])
    if know.rules.leader_compared:
        return after
    known = (*state.known, *(writer.ledger for writer in state.writers))
    return after._replace(kept=tuple(_read(know, state, who, ledger, count) for who, ledger in enumerate(known)))


def _read(know: Knowledge, state: State, who: int, known: Ledger, count: int) -> tuple[Message | None, ...]:
    """What this follower has read, where that goes beyond `count`; nothing where it does not."""
    ledger = state.readable(who)
    for end in range(len(ledger), count, -1):
        if know.fold(ledger[:end]) == known:
            return ledger[:end]
    return ()


def _crashes(know: Knowledge, state: State) -> Iterator[Step]:
    """A writer starts anew and has read LEDGER to its end. Its requests may still land; nobody waits for them."""
    for me, writer in enumerate(state.writers):
        ledger = know.fold(state.ledger)
        read = frozenset(d for _, d in ledger.decisions if d and know.counts(ledger, d.plan))
        new = Writer(STANDBY, ledger, read)
        if new == writer:
            continue
        network = frozenset(r._replace(writer=NOWHERE) if r.writer == me else r for r in state.network)
        kept = state.kept
        if kept:
            at = know.world.solvers + me
            kept = (*kept[:at], (), *kept[at + 1 :])
        yield Step("writer crashes", (me,), state._replace(network=network, kept=kept).become(me, new).spend("crash"))
