"""cluster-writer, decision by decision: what was begun is judged and sent to the API server until it is over.

A writer that has lost the Lease goes on with what it has begun: what it sends is guarded (R5), and a new epoch has put
up fences before it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from tests.model import epochs
from tests.model.knowledge import Knowledge
from tests.model.state import ACTIVE, NOWHERE, Decision, Request, State, Step, View

HALF_BEGUN: Final = "half a strict gang begun"


class Verdict(Enum):
    """What follows for a decision: the verdicts of cluster-writer's `core/judge.py`."""

    NOTHING = "nothing"
    BIND = "bind"
    WITHDRAW = "withdraw"
    LOSS = "loss"
    DOUBT = "doubt"


def steps(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    """What this writer may do about the decisions that it has begun."""
    writer = state.writers[me]
    view = state.views[know.world.solvers + me]
    for _, decision in writer.ledger.decisions:
        if decision is None or decision.id in writer.sent or not _is_begun(know, state, me, decision):
            continue
        verdict = judge(know, state, me, decision)
        if verdict is Verdict.LOSS:
            yield from _on_loss(know, state, me, decision)
        elif verdict is Verdict.WITHDRAW or (verdict is Verdict.BIND and decision.id in writer.given_up):
            yield from _withdraw(state, me, view, decision)
        elif verdict is Verdict.BIND:
            yield _send(know, state, me, decision)
            if state.left("rejects"):
                yield _refused_for_good(know, state, me, decision)


def _is_begun(know: Knowledge, state: State, me: int, decision: Decision) -> bool:
    return not know.rules.recorded or decision.plan in state.writers[me].begun


def judge(know: Knowledge, state: State, me: int, decision: Decision) -> Verdict:
    """One decision of a plan that counts."""
    writer, rules = state.writers[me], know.rules
    view = state.views[know.world.solvers + me]
    if not know.counts(writer.ledger, decision.plan) or (rules.basis and view.through < decision.basis):
        return Verdict.NOTHING
    seen = know.seen(state, view, decision.name)
    if seen.slot >= 0 or not seen.uid:
        return Verdict.NOTHING
    if seen.uid != decision.uid and rules.bind_uid:
        return Verdict.NOTHING
    if rules.only_the_pod_gives_up:
        if seen.attempt != decision.attempt:
            return Verdict.NOTHING
    elif decision.id in state.failed:
        return Verdict.NOTHING
    if not rules.last_check:
        return Verdict.BIND
    clash = _clash(know, state, me, decision)
    is_late = rules.clash_at_end and (view.position < len(state.log) or view.left)
    return Verdict.DOUBT if is_late and clash is not Verdict.BIND else clash


def _clash(know: Knowledge, state: State, me: int, decision: Decision) -> Verdict:
    """R11: a pod bound in this view, or another unsettled decision that this writer has read, holds the slot.

    Only decisions that it knows prove a loss: who bound a pod of which it knows none, its notes do not prove.
    """
    writer = state.writers[me]
    view = state.views[know.world.solvers + me]
    others = {d for _, d in writer.ledger.decisions if d} | writer.remembered
    holders = [know.seen(state, view, name) for name in know.names]
    bound = {seen.uid for seen in holders if seen.slot == decision.slot and seen.uid != decision.uid}
    if any(other.uid in bound and other.slot == decision.slot for other in others) or any(
        other.slot == decision.slot
        and other.uid != decision.uid
        and not know.settled(state, view, writer.ledger, other)
        and not _is_bound_elsewhere(know, state, view, other)
        for other in others
    ):
        return Verdict.LOSS
    return Verdict.WITHDRAW if bound else Verdict.BIND


def _is_bound_elsewhere(know: Knowledge, state: State, view: View, other: Decision) -> bool:
    seen = know.seen(state, view, other.name)
    return seen.uid == other.uid and seen.slot not in (NOWHERE, other.slot)


def _on_loss(know: Knowledge, state: State, me: int, decision: Decision) -> Iterator[Step]:
    """A clash among our own proves a loss. Without a Lease nobody can raise an epoch: the decision is withdrawn."""
    writer = state.writers[me]
    if not know.rules.only_the_pod_gives_up:
        after = state._replace(failed=state.failed | {decision.id})
        yield Step("writer calls it failed", (me, decision.id), after)
    elif not know.rules.recorded:
        yield from _withdraw(state, me, state.views[know.world.solvers + me], decision)
    elif writer.mode == ACTIVE and state.lease.holder == me and state.lease.epoch == writer.ledger.epoch:
        yield epochs.begin(know, state, me)


def _withdraw(state: State, me: int, view: View, decision: Decision) -> Iterator[Step]:
    """R6: a patch of the pod, guarded by its uid and version. No bind judged before it can land after it."""
    pod = state.pods[decision.name]
    if pod and pod.uid == decision.uid and pod.version == view.held[decision.name]:
        yield Step("writer withdraws", (me, decision.id), state.store(decision.name, pod.uid, pod.attempt + 1))


def _refused_for_good(know: Knowledge, state: State, me: int, decision: Decision) -> Step:
    """The answer is a plain no, or the node is gone: it is to be withdrawn."""
    writer = state.writers[me]
    state = state.spend("rejects")
    if not know.rules.only_the_pod_gives_up:
        after = state._replace(failed=state.failed | {decision.id})
        return Step("writer calls it failed", (me, decision.id), after)
    given_up = writer._replace(given_up=writer.given_up | {decision.id})
    return Step("bind refused for good", (me, decision.id), state.become(me, given_up))


def _send(know: Knowledge, state: State, me: int, decision: Decision) -> Step:
    writer = state.writers[me]
    view = state.views[know.world.solvers + me]
    version = view.held[decision.name] if know.rules.bind_version else 0
    after = state._replace(network=state.network | {Request(decision, version, me)})
    after = after.become(me, writer._replace(sent=writer.sent | {decision.id}))
    if decision.size > 1 and not _is_excused(know, state, decision) and _is_half(state, me, decision):
        after = after._replace(bad=after.bad or HALF_BEGUN)
    return Step("writer sends bind", (me, decision.name, decision.uid, decision.slot), after)


def _is_excused(know: Knowledge, state: State, decision: Decision) -> bool:
    """Half a gang may begin: its mate's bind was refused for good after it had begun; or LEDGER lost something between
    its stages, so that sequences are used again, or whoever gave the plan up was not heard."""
    world, mate = know.world, state.pods[1 - decision.name]
    was_refused = bool(world.rejects) and not state.left("rejects") and mate is not None and mate.attempt > 0
    lost = world.loses and not (state.left("tail") or state.left("full"))
    return was_refused or (world.is_staged and know.rules.gangs_whole and lost)


def _is_half(state: State, me: int, decision: Decision) -> bool:
    """Its mate waits, and this writer has read no decision for it in this plan: nobody is about to bind it."""
    mate = 1 - decision.name
    pod = state.pods[mate]
    if pod is None or pod.uid != mate * 8 + 1 or pod.slot >= 0:
        return False
    members = sum(1 for _, d in state.writers[me].ledger.decisions if d and d.plan == decision.plan)
    is_on_its_way = any(request.decision.plan == decision.plan for request in state.network)
    return members < decision.size and not is_on_its_way
