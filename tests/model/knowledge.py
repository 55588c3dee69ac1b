"""What somebody knows: LEDGER as read, a view of STATE, and the words that the protocol makes of both.

Settled, gone, capacity, pending: the same words as in docs/transaction.md, for a small world.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.model.state import (
    ABORTED,
    ABSENT,
    ACCOUNT,
    COMMITTED,
    DECISION,
    EPOCH,
    NOWHERE,
    OPEN,
    Decision,
    Entry,
    Held,
    Ledger,
    Message,
    State,
    View,
)
from tests.model.world import World

NOBODY = Held(0, None)
FOLDS_MAX = 300_000


class Seen(NamedTuple):
    """A pod as a view shows it; uid 0: no such pod."""

    uid: int
    attempt: int
    slot: int
    plan: int


UNSEEN = Seen(0, 0, NOWHERE, 0)


class Knowledge:
    """The world's words. Folds of the ledger are remembered, since most states share them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rules = world.rules
        self.names = world.names
        self.nodes = sorted(set(world.nodes))
        self.slots = range(len(world.nodes))
        self.accounts = len(self.nodes) + (1 if world.quota else 0)
        self._folds: dict[tuple[Message | None, ...], Ledger] = {}

    # --- LEDGER ------------------------------------------------------------------------------------------------------

    def fold(self, messages: tuple[Message | None, ...]) -> Ledger:
        """What a follower knows that has read these. Keys carry the epoch: those of earlier ones are not read."""
        found = self._folds.get(messages)
        if found is None:
            if len(self._folds) > FOLDS_MAX:
                self._folds.clear()
            found = self._folds[messages] = self._fold(messages)
        return found

    def _fold(self, messages: tuple[Message | None, ...]) -> Ledger:
        stamps, decisions, plans, epoch, version = self._nothing()
        for sequence, message in enumerate(messages, 1):
            if message is None:
                continue
            if message.family == EPOCH:
                stamps, decisions, plans, _, _ = self._nothing()
                epoch, version = message.value, message.pods_version
            elif message.family == ACCOUNT:
                stamps[message.key] = sequence
            elif message.family == DECISION:
                decisions[message.key] = Held(sequence, message.decision)
            else:
                plans[message.key] = Entry(message.key, message.value, sequence)
        return Ledger(tuple(stamps), tuple(decisions), tuple(plans[k] for k in sorted(plans)), epoch, version)

    def _nothing(self) -> tuple[list[int], list[Held], dict[int, Entry], int, int]:
        return [0] * self.accounts, [NOBODY for _ in self.names], {}, 0, 0

    def append(self, state: State, batch: Iterable[Message]) -> State:
        """LEDGER takes a batch and keeps the newest message of a key; what a lost tail had replaced may come back."""
        batch = tuple(batch)
        old = state.ledger
        if not (self.world.tail and not self.world.vanish):
            keys = {(message.family, message.key) for message in batch}
            old = tuple(None if m is not None and (m.family, m.key) in keys else m for m in old)
        return state._replace(ledger=old + batch)

    # --- STATE -------------------------------------------------------------------------------------------------------

    def seen(self, state: State, view: View, name: int) -> Seen:
        """A pod as the view shows it."""
        at = view.held[name]
        return Seen(*state.log[at - 1][1:]) if at else UNSEEN

    # --- both --------------------------------------------------------------------------------------------------------

    def gone(self, state: State, view: View, decision: Decision) -> bool:
        """Gone (R4): the view has no pod of this uid, and would show it if there were one."""
        if self.seen(state, view, decision.name).uid == decision.uid:
            return False
        return not self.rules.gone_needs_completeness or view.through >= decision.pod_version

    def past(self, state: State, view: View, decision: Decision) -> bool:
        """The pod has left this attempt behind: it is gone, or its attempt was raised (R6)."""
        seen = self.seen(state, view, decision.name)
        if self.rules.only_the_pod_gives_up and seen.uid == decision.uid and seen.attempt > decision.attempt:
            return True
        return self.gone(state, view, decision)

    def settled(self, state: State, view: View, ledger: Ledger, decision: Decision) -> bool:
        """Settled: gone, or its attempt is past, or its plan was aborted."""
        if self.past(state, view, decision) or ledger.plan(decision.plan).status == ABORTED:
            return True
        return not self.rules.only_the_pod_gives_up and decision.id in state.failed

    def counts(self, ledger: Ledger, plan: int) -> bool:
        """The plan has its last word (R7)."""
        status = ledger.plan(plan).status
        return status == COMMITTED or (not self.rules.last_word and status != ABORTED)

    def holders(self, state: State, view: View, ledger: Ledger) -> set[tuple[int, int]]:
        """(uid, slot) of everybody who holds capacity for one follower: bound in its view, or decided and not
        settled."""
        held: set[tuple[int, int]] = set()
        bound: set[int] = set()
        for name in self.names:
            seen = self.seen(state, view, name)
            if seen.uid and seen.slot >= 0:
                held.add((seen.uid, seen.slot))
                bound.add(seen.uid)
        for _, decision in ledger.decisions:
            if decision and decision.uid not in bound and not self.settled(state, view, ledger, decision):
                held.add((decision.uid, decision.slot))
        return held

    def pending(self, state: State, view: View, ledger: Ledger, name: int) -> bool:
        """Unbound in the view, and no unsettled decision under its name, whichever uid it is for (R3)."""
        seen = self.seen(state, view, name)
        if not seen.uid or seen.slot >= 0:
            return False
        decision = ledger.decisions[name].decision
        if decision is None or (decision.uid != seen.uid and not self.rules.any_uid):
            return True
        return self.settled(state, view, ledger, decision)

    # --- the truth, for verdicts -------------------------------------------------------------------------------------

    def is_open(self, state: State, ledger: Ledger, decision: Decision) -> bool:
        """A decision of the ledger that may still be carried out, judged by what is so, not by a view."""
        pod = state.pods[decision.name]
        return (
            pod is not None
            and pod.uid == decision.uid
            and pod.slot < 0
            and pod.attempt == decision.attempt
            and decision.id not in state.failed
            and ledger.plan(decision.plan).status != ABORTED
            and (not self.rules.recorded or decision.epoch == state.lease.epoch)
        )

    def overlap(self, state: State, decisions: Iterable[Decision]) -> str:
        """What a batch that is about to be accepted takes although another has it; empty when all is well."""
        now = self.fold(state.ledger)
        for new in decisions:
            if any(pod and pod.slot == new.slot and pod.uid != new.uid for pod in state.pods):
                return "a decision for a slot where a pod is bound"
            for _, old in now.decisions:
                if old is None or not self.is_open(state, now, old) or not self.counts(now, old.plan):
                    continue
                if old.slot == new.slot and old.uid != new.uid:
                    return "a decision for a slot that another decision holds"
                if (old.uid, old.attempt) == (new.uid, new.attempt):
                    return "a pod decided twice"
        return ""

    def is_unfinished(self, ledger: Ledger, plan: int) -> bool:
        """Neither committed nor aborted."""
        return ledger.plan(plan).status in (ABSENT, OPEN)
