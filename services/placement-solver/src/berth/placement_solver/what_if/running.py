"""Rounds on a view that belongs to nobody else, until nothing moves any more.

The rounds are those of the solver. What they decide is shown as bound once nothing is left to decide, and who has to
leave has left then; so each pod ends where it would in the cluster, if nothing else came in between.
"""

from __future__ import annotations

import random as randomness
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from berth.contracts.ledger import Decision, Victim
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.rounds import Rounds
from berth.placement_solver.what_if.changing import Supposed
from berth.placement_solver.what_if.ports import Hourglass, Nowhere, OwnLedger
from berth.transaction.claims import Name

HORIZON_S: Final = 15.0
"""So long it is waited for what is tried again by the clock alone."""
ROUNDS_MAX: Final = 10_000
STEP_S: Final = 0.1
"""From one round to the next, at least: what wakes is looked at no more often."""


class Limits(NamedTuple):
    """As the solver is set."""

    batch_pods_max: int
    batch_messages_max: int
    preempts: bool


class Ended(NamedTuple):
    """How it went: how many rounds there were, whether time ran out before nothing moved, and who left for whom."""

    rounds: int
    is_cut_off: bool
    left: dict[tuple[str, str], Left]


class Left(NamedTuple):
    """A pod that left."""

    victim: Victim
    beneficiaries: list[Name]
    reason: str


class Running:
    """The rounds of one view."""

    def __init__(
        self, supposed: Supposed, verifier: Verifier, random: randomness.Random, limits: Limits, now_s: float
    ) -> None:
        """`now_s`: unix time."""
        self._supposed = supposed
        self._cluster = supposed.cluster
        self._ledger = OwnLedger(self._cluster)
        self._clock = Hourglass(now_s, self._cluster.now)
        self._rounds = Rounds(
            self._cluster,
            verifier,
            self._ledger,
            Nowhere(),
            Nowhere(),
            self._clock,
            random,
            batch_pods_max=limits.batch_pods_max,
            report_after_s=0.0,
            batch_messages_max=limits.batch_messages_max,
            preempts=limits.preempts,
        )
        self._cluster.solver.tells = True  # nobody makes words after these rounds
        self._left: dict[tuple[str, str], Left] = {}

    def until_rest(self, is_over: Callable[[], bool]) -> Ended:
        """Until nothing moves any more, or time `is_over`."""
        cluster, clock, rounds = self._cluster, self._clock, self._rounds
        for waiting in cluster.queue.waiting.values():
            waiting.trace = ""  # nobody traces what is only supposed
        known = {each.decision.plan for each in cluster.book.nominations if each.decision is not None}
        ends_at = clock.monotonic() + HORIZON_S
        for number in range(ROUNDS_MAX):
            if is_over():
                return Ended(number, True, self._left)
            rounds.tick()
            finished(rounds.revoke())
            finished(rounds.grow())
            if rounds.has_work():
                finished(rounds.round())
                clock.advance(STEP_S / 10)
                continue
            if self._settle(known):
                ends_at = clock.monotonic() + HORIZON_S
            elif cluster.has_news:
                clock.advance(STEP_S)
            elif (retry := cluster.queue.next_retry()) <= ends_at:
                clock.advance(max(retry - clock.monotonic(), STEP_S))
            else:
                return Ended(number, False, self._left)
        return Ended(ROUNDS_MAX, True, self._left)

    def _settle(self, known: set[str]) -> bool:
        """What was decided is bound, who was to leave has left; whether there was any. Plans that are `known` are not
        for the sake of what is supposed."""
        decided, self._ledger.decided = self._ledger.decided, []
        for decision in decided:
            if not decision.nominates:
                self._supposed.bind(decision)
        leaving = [
            (each.decision, victim)
            for each in self._cluster.book.nominations
            if each.decision is not None
            for victim in self._cluster.book.remaining_victims(each)
        ]
        for decision, victim in leaving:
            if decision.plan not in known:
                self._note(decision, victim)
        for name in sorted({(victim.namespace, victim.name) for _, victim in leaving}):
            self._supposed.leave(name)
        if decided or leaving:
            self._cluster.end_of_state()
        return bool(decided or leaving)

    def _note(self, decision: Decision, victim: Victim) -> None:
        key = (victim.namespace, victim.name)
        left = self._left.setdefault(key, Left(victim, [], decision.eviction_reason))
        name = (decision.namespace, decision.name)
        if name not in left.beneficiaries:
            left.beneficiaries.append(name)


def finished(work: Coroutine[Any, Any, Any]) -> None:
    """Nothing in it waits for anything: its ports answer at once."""
    try:
        while True:
            work.send(None)
    except StopIteration:
        return


def running_view(cluster: ClusterView) -> None:
    """Make a view that of the only solver: it decides whatever waits."""
    if len(cluster.solvers) > 1:
        cluster.resharded((cluster.me,))
