"""The recorded stretch, played through for a solver of its own.

Everything that others did happens as it was recorded: nodes, devices, quotas, Reservations, pods that come, pods of
others. Pods that were to be decided in the stretch wait until the shadow decides, and end after the same running time
as they had. Time is that of the bus, and passes from message to message.
"""

from __future__ import annotations

import heapq
import random as randomness
from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec.structs import replace

from berth.cli.recorded.moment import Moment
from berth.cli.recorded.tape import ORDER, entry_of
from berth.cli.shadow.lives import Life, Lives, pod_of
from berth.cli.shadow.outcome import Side
from berth.contracts import buckets, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Decision
from berth.contracts.state import Pod, Reservation
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.origins.prices import prices_in
from berth.placement_solver.rounds import Rounds
from berth.placement_solver.what_if.changing import as_bound, as_waiting, unplaced
from berth.placement_solver.what_if.ports import Hourglass, Nowhere, OwnLedger
from berth.placement_solver.what_if.running import finished
from berth.recording.grounds import Known
from berth.recording.records import Entered
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Name

SOLVER: Final = "berth-shadow"
STEP_S: Final = 0.05
"""What comes so shortly after another message is decided with it."""
ROUND_S: Final = 0.01
"""So long a round takes."""
WAKE_S: Final = 0.1
ROUNDS_MAX: Final = 100_000
BATCH_PODS_MAX: Final = 500


class World:
    """A cluster in which the shadow decides. `side` is what becomes of the pods that came."""

    def __init__(self, known: Known, text: str, lives: Lives) -> None:
        """`text`: a KubeSchedulerConfiguration that can be used; `lives` are known before anything happens."""
        ground = known.ground
        self.cluster = ClusterView(ground.schedulers, SOLVER, is_configured=True, handed_off=frozenset(ground.hand_off))
        self.side = Side()
        self._lives = lives
        self._ledger = OwnLedger(self.cluster)
        self._clock = Hourglass(0.0, 0.0)
        self._rounds = Rounds(
            self.cluster,
            Verifier(self.cluster),
            self._ledger,
            Nowhere(),
            Nowhere(),
            self._clock,
            randomness.Random(0),
            batch_pods_max=BATCH_PODS_MAX,
            report_after_s=0.0,
            preempts=ground.preempts,
        )
        for node in known.nodes:
            self.cluster.nodes.row(node)
        self.cluster.configuration.read(text)
        self.price(known)
        self._recorded: dict[str, str] = {}
        """The uid under each key of a pod, as was recorded."""
        self._here: dict[str, Pod] = {}
        """The pod under each key, as is seen here."""
        self._evicted: set[str] = set()
        self._before: set[str] = set()
        """Plans from before the stretch."""
        self._ends: list[tuple[float, str, str]] = []
        self._open_until_s = 0.0

    @property
    def now_s(self) -> float:
        """The time here."""
        return self._clock.now()

    def price(self, known: Known) -> None:
        """What holds of prices from now on: they follow what arrives, which is the same here."""
        prices, scarcity = prices_in(known.ground)
        if scarcity.size:
            of = dict(zip(known.nodes, scarcity.tolist(), strict=False))
            scarcity = np.array([of.get(name, 0.0) for name in self.cluster.nodes.names])
        self.cluster.solver.costs.use(prices, scarcity)

    # --- what happens ------------------------------------------------------------------------------------------------

    def begin(self, moment: Moment, at_s: float) -> None:
        """Everything as it was when the stretch began."""
        self._pass(at_s)
        for bucket in ORDER:
            for each in moment.values.of(bucket):
                if bucket == buckets.STATE:
                    self._take_state(each)
                else:
                    self._read(each)
        self.cluster.end_of_state()
        nominations = self.cluster.book.nominations
        self._before = {each.decision.plan for each in nominations if each.decision is not None}
        self._rest()

    def take(self, entered: Entered) -> None:
        """The next message."""
        if entered.stored_s > self._open_until_s:
            self.advance(entered.stored_s)
            self._open_until_s = entered.stored_s + STEP_S
        self._rounds.tell_time()
        if entered.bucket == buckets.STATE:
            self._take_state(entered)
        elif entered.bucket != buckets.LEDGER:
            self._read(entered)
        elif entered.key == subjects.EPOCH_KEY:
            sequence = self.cluster.book.ledger.sequence + 1
            self.cluster.read_ledger(entered.key, entered.value, entered.deleted, sequence)

    def advance(self, to_s: float) -> None:
        """Let time pass: what was gathered is decided, pods end, who waits is tried again."""
        self.cluster.end_of_state()
        while True:
            self._rest()
            due_s = min(self._ends[0][0] if self._ends else float("inf"), self.cluster.queue.next_retry())
            if self.cluster.has_news:
                due_s = min(due_s, self.now_s + WAKE_S)
            if due_s > to_s:
                break
            self._pass(max(due_s, self.now_s + ROUND_S))
            self._end_due()
        self._pass(to_s)

    def _pass(self, to_s: float) -> None:
        self._clock.advance(max(0.0, to_s - self.now_s))
        self._rounds.tell_time()
        self.cluster.loads.tell_time(self.now_s)

    def _end_due(self) -> None:
        while self._ends and self._ends[0][0] <= self.now_s:
            _, key, uid = heapq.heappop(self._ends)
            self._leave(key, uid)
        self.cluster.end_of_state()

    # --- messages ----------------------------------------------------------------------------------------------------

    def _read(self, entered: Entered) -> None:
        try:
            self.cluster.read(entered.bucket, entry_of(entered))
        except (InvalidMessage, ValueError):
            return  # left out, as by a solver

    def _take_state(self, entered: Entered) -> None:
        kind = entered.key.partition(".")[0]
        if kind == "pod":
            self._take_pod(entered)
        elif kind == "reservation":
            self._take_reservation(entered)
        else:
            if kind == "node" and entered.deleted:
                self._lose(subjects.unescape(entered.key.partition(".")[2]))
            self._read(entered)

    def _take_reservation(self, entered: Entered) -> None:
        """It lies where it lay: one that waits is not shown before it has its node."""
        if not entered.deleted:
            try:
                seen = decode(entered.value, Reservation)
            except InvalidMessage:
                return
            if not seen.node and not seen.phase:
                return
        self._read(entered)

    def _take_pod(self, entered: Entered) -> None:
        key, pod = entered.key, pod_of(entered)
        before = self._recorded.get(key)
        if before is not None and (pod is None or pod.uid != before):
            self._gone(key, before, entered)
            del self._recorded[key]
        if pod is None:
            return
        self._recorded[key] = pod.uid
        here = self._here.get(key)
        if here is not None and here.uid != pod.uid:
            self._leave(key, here.uid)  # one of its name has come, so it has to be over
        life = self._lives.of.get(pod.uid)
        if pod.uid in self._evicted or life is None:
            return
        if not life.is_decided_anew:
            if not pod.node and life.came_s is not None:
                return  # somebody else will give it a node
            self._here[key] = pod
            self._read(entered)
        elif pod.phase not in FINISHED_PHASES and pod.uid not in self.side.nodes:
            self._show(key, replace(as_waiting(unplaced(pod)), version=pod.version))

    def _show(self, key: str, pod: Pod) -> None:
        """A pod as it is here, unless it is shown so already."""
        here = self._here.get(key)
        if here is not None and replace(here, version=pod.version) == pod:
            return
        self._here[key] = pod
        self.cluster.read_state(key, encode(pod), deleted=False, gap=False, trace=None)

    def _gone(self, key: str, uid: str, entered: Entered) -> None:
        """It was gone then. One that ran goes here when it has run for as long."""
        life = self._lives.of.get(uid)
        if life is None or not life.is_decided_anew or life.bound_s is None:
            self._leave(key, uid)

    def _leave(self, key: str, uid: str) -> None:
        here = self._here.get(key)
        if here is None or here.uid != uid:
            return
        del self._here[key]
        version = max(self.cluster.book.complete["pods"].version, here.version)
        self.cluster.read_state(key, str(version).encode(), deleted=True, gap=False, trace=None)

    def _lose(self, node: str) -> None:
        """A node goes, and with it the pods that the shadow has put there."""
        there = [claim for claim in self.cluster.book.claims_on(node) if self.side.nodes.get(claim.uid) == node]
        for claim in there:
            self.side.lost += 1
            self._leave(subjects.pod_key(*claim.name), claim.uid)

    # --- decisions ---------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Rounds until nothing is left to decide."""
        rounds = self._rounds
        for _ in range(ROUNDS_MAX):
            rounds.tick()
            finished(rounds.revoke())
            if rounds.has_work():
                finished(rounds.round())
                self._clock.advance(ROUND_S)
            elif not self._settle():
                return

    def _settle(self) -> bool:
        """What was decided is bound, who has to leave leaves; whether there was anything."""
        decided, self._ledger.decided = self._ledger.decided, []
        placed = [each for each in decided if not each.nominates and each.kind == "pod"]
        for decision in placed:
            self._bind(decision)
        leaving = [
            (each.decision, victim)
            for each in self.cluster.book.nominations
            if each.decision is not None and each.decision.plan not in self._before
            for victim in self.cluster.book.remaining_victims(each)
        ]
        for decision, victim in leaving:
            if victim.uid not in self._evicted:
                self._evicted.add(victim.uid)
                self.side.victims[decision.eviction_reason] += 1
            self._leave(subjects.pod_key(victim.namespace, victim.name), victim.uid)
        if decided or leaving:
            self.cluster.end_of_state()
        return bool(decided or leaving)

    def _bind(self, decision: Decision) -> None:
        key = subjects.pod_key(decision.namespace, decision.name)
        here, life = self._here.get(key), self._lives.of.get(decision.uid)
        if here is None or here.uid != decision.uid or life is None:
            return
        self._show(key, as_bound(here, decision))
        self._forget([(decision.namespace, decision.name)])
        if life.came_s is not None:
            self.side.nodes[decision.uid] = decision.node
            self.side.waited_s[decision.uid] = max(0.0, self.now_s - life.came_s)
        self._will_end(key, decision.uid, life)

    def _will_end(self, key: str, uid: str, life: Life) -> None:
        ran_s = life.ran_s
        if ran_s is not None:
            heapq.heappush(self._ends, (self.now_s + ran_s, key, uid))

    def _forget(self, decided: Iterable[Name]) -> None:
        """Decisions that are carried out take no part any more."""
        ledger = self.cluster.book.ledger
        for name in decided:
            if name in ledger.decisions:
                self.cluster.read_ledger(
                    subjects.decision_key(ledger.epoch.epoch, *name), b"", True, ledger.sequence + 1
                )
