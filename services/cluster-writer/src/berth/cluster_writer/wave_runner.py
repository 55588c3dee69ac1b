"""The waves: from committed plans to binds, while the Lease is ours.

A wave takes the plans that LEDGER has committed and that were not begun yet, checks strict gangs (R9), asks the leader
whether the ledger still is what the Lease remembers, records the newest plan in the Lease (R10), and only then begins
their decisions. One leader look and one Lease write a wave, not a pod. While nothing is to be begun it looks at the
leader now and then, since a ledger that is gone sends no message that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from berth.bus.deleting import delete
from berth.bus.errors import ApiError, BusError
from berth.bus.port import LedgerPort, Stored, Write
from berth.cluster_writer import metrics
from berth.cluster_writer.bind_executor import BindExecutor
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.core.epoch_rate import BURST, epoch_delay_s
from berth.cluster_writer.core.gangs import Start, check_plan
from berth.cluster_writer.core.waves import loss, plans_to_forget, to_begin, to_record, unreadable
from berth.cluster_writer.epochs import Epochs, LostLeaseError
from berth.cluster_writer.eviction_executor import EvictionExecutor
from berth.cluster_writer.old_epochs import OldEpochs
from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Epoch, Plan, PlanStatus
from berth.kube.lease import KubeLease, Outcome
from berth.runtime.clock import Clock
from berth.telemetry import get_logger
from berth.transaction.claims import Name

log = get_logger(__name__)

PLANS_MAX = 64
IDLE_S = 1.0
FORGET_AFTER_S = 10.0
"""A plan entry whose decisions are gone stays so long. Where LEDGER has lost its tail and has gone on, the numbers of
the lost messages are given again: until the follower has noticed, decisions that came under them are not seen."""
LOOK_EVERY_S = 2.0
NO_BUCKET = 10059
"""JetStream's error code for a stream that is not there."""


class WaveRunner:
    """The active writer's loop. `wake` is set when something new was seen."""

    def __init__(
        self,
        cluster: ClusterView,
        ledger: LedgerPort,
        lease: KubeLease,
        binds: BindExecutor,
        evictions: EvictionExecutor,
        epochs: Epochs,
        clock: Clock,
        *,
        on_raised: Callable[[int, str], None] = lambda epoch, reason: None,
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._lease = lease
        self._binds = binds
        self._evictions = evictions
        self._epochs = epochs
        self._old_epochs = OldEpochs(ledger)
        self._clock = clock
        self.wake = asyncio.Event()
        self.suspected_loss = ""
        self._fresh: set[str] = set()
        self._undecided_since: dict[str, float] = {}
        self._read_to = (0, 0)
        self._is_checked = False
        self._looked_at = float("-inf")
        self._on_raised = on_raised
        self._raised_at: list[float] = []
        self._has_put_off = False
        self.ledger_ready = asyncio.Event()
        self.state_ready = asyncio.Event()

    @property
    def is_acting(self) -> bool:
        """The Lease is ours and the ledger has been compared with it."""
        return self._lease.active and self._is_checked

    @property
    def _must_compare(self) -> bool:
        """The ledger was not compared yet, or something was lost, or cannot be read (R15)."""
        return not self._is_checked or bool(self.suspected_loss or self._cluster.book.ledger.unreadable)

    def check_again(self) -> None:
        """The Lease has just become ours, or the ledger starts over, or the bus was away: compare before acting."""
        self._is_checked = False
        self._fresh = set(self._cluster.book.ledger.plans)
        self.wake.set()

    def lease_changed(self) -> None:
        """The Lease has become ours, or is ours no longer.

        What was suspected before is the former holder's word: if it still stands, the decision that showed it is judged
        again, or the leader says so again.
        """
        self.suspected_loss = ""
        self.check_again()

    def plan_read(self, plan: str) -> None:
        """A plan entry was read from LEDGER. A stand-by takes all that are there once the Lease is its own: in the same
        step, so that it misses none."""
        if self._lease.held:
            self._fresh.add(plan)

    async def run(self) -> None:
        """Act while active, for ever."""
        await self.state_ready.wait()
        await self.ledger_ready.wait()
        while True:
            metrics.ACTIVE.set(1 if self._lease.active else 0)
            metrics.LEDGER_UNREADABLE.set(len(self._cluster.book.ledger.unreadable))
            try:
                moved = await self._turn() if self._lease.active else False
            except LostLeaseError:
                log.warning("the Lease is another writer's: beginning nothing")
                self.lease_changed()
                moved = False
            except BusError as error:
                log.warning("the bus does not answer: trying again", error=str(error))
                await self._clock.sleep(0.5)
                moved = False
            if not moved:
                await self._wait()

    async def _wait(self) -> None:
        alarm = asyncio.get_running_loop().call_later(IDLE_S, self.wake.set)
        try:
            await self.wake.wait()
        finally:
            alarm.cancel()
        self.wake.clear()

    async def _turn(self) -> bool:
        """One step; True when there may be more to do at once."""
        if self._must_compare:
            await self._compare()
            return True
        view = self._cluster.book.ledger
        plans = to_begin(view, self._fresh)
        self._fresh = set(plans)
        broken: set[Name] = set()
        ready = self._begin_gangs(plans, broken)
        if not ready:
            return await self._look_now_and_then()
        if not await self._has_read_newest_plan():
            return False
        if not await self._record(ready):
            metrics.WAVES.labels("refused").inc()
            return True
        # The Lease may have taken its time, as while the API server is away. LEDGER may be starting over, with half a
        # gang read so far, or a gang may have lost a member.
        if self._must_compare:
            return True
        ready = self._begin_gangs(to_begin(view, ready), broken)
        metrics.WAVES.labels("begun").inc()
        for plan in ready:
            self._fresh.discard(plan)
            for name in sorted(view.members.get(plan, ())):
                held = view.decisions.get(name)
                if held is not None and held.decision.plan == plan and name not in broken:
                    # What waits for others to leave is bound under no nomination, but under a decision of its own (E1).
                    (self._evictions if held.decision.nominates else self._binds).begin(held.decision)
        return True

    def _begin_gangs(self, plans: Sequence[str], broken: set[Name]) -> list[str]:
        """The plans that may begin now. `broken`: names of broken gangs, which don't begin with them; what is not in it
        yet is put there, and given up here.

        Plans to be judged later are left.
        """
        ready: list[str] = []
        for plan in plans:
            if len(ready) == PLANS_MAX:
                break
            check = check_plan(
                plan, self._cluster.book, self._cluster.begun, self._cluster.nodes, self._evictions.letting_go
            )
            if check.start is Start.WAIT:
                continue
            names = {(decision.namespace, decision.name) for decision in check.broken}
            if not names <= broken:
                log.warning("a gang cannot begin: its members are withdrawn", plan=plan, reason=check.reason)
                for decision in check.withdraw:
                    if (decision.namespace, decision.name) not in broken:
                        self._binds.give_up(decision, check.reason)
                broken |= names
            if check.rest:
                ready.append(plan)
            else:
                self._fresh.discard(plan)
        return ready

    # --- R10 ---------------------------------------------------------------------------------------------------------

    async def _record(self, plans: Sequence[str]) -> bool:
        """Look at the leader, then write the newest plan into the Lease; False when that did not come to pass."""
        record = self._lease.record
        if record is None:
            raise LostLeaseError
        newest = to_record(self._cluster.book.ledger, record.plan, list(plans))
        reason = await self._leader_says(record.epoch, [record.plan, newest])
        if reason:
            self.suspected_loss = reason
            return False
        if newest == record.plan:
            # Nothing newer to remember; being the holder still is what the write would have shown.
            outcome = await self._lease.renew()
        else:
            outcome = await self._lease.remember(epoch=record.epoch or 0, plan=newest, seen=record)
        if outcome is Outcome.DONE:
            return True
        if outcome is Outcome.UNKNOWN:
            await self._clock.sleep(0.2)
            return False
        if outcome is Outcome.CHANGED:
            self.check_again()
            return False
        raise LostLeaseError

    async def _has_read_newest_plan(self) -> bool:
        """Whether this writer has read LEDGER as far as the Lease names it. A wave of one that has not would make the
        Lease forget a plan that its predecessor began, and with it the only trace of a loss."""
        record = self._lease.record
        if record is None:
            raise LostLeaseError
        if not loss(self._cluster.book.ledger, record.epoch, record.plan):
            return True
        await self._ask_leader(record.epoch, [record.plan])
        if self.suspected_loss:
            self.wake.set()
        return False

    async def _look_now_and_then(self) -> bool:
        """Nothing to begin: does the ledger still stand? True when it seems not to."""
        record, now = self._lease.record, self._clock.monotonic()
        if record is None or now - self._looked_at < LOOK_EVERY_S:
            return False
        self._looked_at = now
        await self._ask_leader(record.epoch, [record.plan])
        return bool(self.suspected_loss)

    async def _ask_leader(self, epoch: int | None, plans: Sequence[str]) -> None:
        """Suspect a loss if the leader's word is a reason to. What a bind has come to suspect meanwhile stays: its
        decision is not looked at again before the next epoch."""
        reason = await self._leader_says(epoch, plans)
        self.suspected_loss = self.suspected_loss or reason

    async def _leader_says(self, epoch: int | None, plans: Sequence[str]) -> str:
        """What the leader holds against acting: another epoch, or a plan that is not committed there."""
        keys = [subjects.EPOCH_KEY, *(subjects.plan_key(epoch or 0, plan) for plan in dict.fromkeys(plans) if plan)]
        answers = await asyncio.gather(*map(self._read, keys))
        if _epoch_of(answers[0]) != epoch:
            return f"the leader is in epoch {_epoch_of(answers[0])}, the Lease in {epoch}"
        for key, stored in zip(keys[1:], answers[1:], strict=True):
            if not _is_committed(stored):
                return f"the leader does not hold {key} as committed"
        return ""

    async def _read(self, key: str) -> Stored | None:
        """The leader's message of a key; a bucket that is gone holds none."""
        try:
            return await self._ledger.read(key)
        except ApiError as error:
            if error.code == NO_BUCKET:
                return None
            raise

    # --- loss --------------------------------------------------------------------------------------------------------

    async def _compare(self) -> None:
        """Start, take-over, reconnect, or a suspicion: does LEDGER hold what the Lease remembers? Else a new epoch."""
        await self._lease.renew()
        record = self._lease.record
        if record is None or not self._lease.held:
            raise LostLeaseError
        view = self._cluster.book.ledger
        certain = self.suspected_loss or unreadable(view)
        reason = certain or loss(view, record.epoch, record.plan)
        if reason and not certain:
            # The follower may not have read a plan that was committed a moment ago: the leader's word counts.
            reason = await self._leader_says(record.epoch, [record.plan]) if record.epoch is not None else reason
        if reason:
            if await self._is_put_off(reason):
                return
            epoch = await self._epochs.raise_epoch(view.epoch.epoch, reason)
            self._raised_at = [*self._raised_at[1 - BURST :], self._clock.monotonic()]
            self._on_raised(epoch, reason)
            self.suspected_loss = ""
            await self._until_epoch(epoch)
            # Plans of the new epoch may have been read already: the answer to its write can be later than they are.
            self._fresh = set(view.plans)
        metrics.EPOCH.set(view.epoch.epoch)
        self._is_checked = True

    async def _is_put_off(self, reason: str) -> bool:
        """Too many epochs were raised of late: rest for a moment, with nothing begun, and compare again."""
        delay_s = epoch_delay_s(self._raised_at, self._clock.monotonic())
        if delay_s <= 0:
            self._has_put_off = False
            return False
        if not self._has_put_off:
            self._has_put_off = True
            metrics.EPOCHS_PUT_OFF.inc()
            log.error("too many epochs were raised of late: the next one is put off", reason=reason, delay_s=delay_s)
        self._is_checked = False
        await self._clock.sleep(min(delay_s, IDLE_S))
        return True

    async def _until_epoch(self, epoch: int) -> None:
        """Wait until the follower has read the epoch that we have written. It may be lost before that."""
        while self._cluster.book.ledger.epoch.epoch < epoch and self._lease.active:
            await self._wait()
            if self._clock.monotonic() - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = self._clock.monotonic()
                await self._ask_leader(epoch, [])
                if self.suspected_loss:
                    return

    # --- tidying -----------------------------------------------------------------------------------------------------

    async def forget_plans(self) -> None:
        """Delete plan entries whose decisions are gone, never the one that the Lease names, and what old epochs left.

        What is remembered of plans that are gone is forgotten first: by a stand-by, too.
        """
        self._forget_gone()
        record = self._lease.record
        if self._lease.held and record is not None and record.epoch is not None:
            ledger, free_space = self._cluster.book.ledger, self._epochs.finds_ledger_full
            await self._old_epochs.delete_some(ledger, record.epoch, free_space=free_space)
        if not self.is_acting or record is None:
            return
        view = self._cluster.book.ledger
        now = self._clock.monotonic()
        undecided = plans_to_forget(view, record.plan)
        self._undecided_since = {plan: self._undecided_since.get(plan, now) for plan in undecided}
        gone = [plan for plan, since in self._undecided_since.items() if now - since >= FORGET_AFTER_S]
        keys = [subjects.plan_key(view.epoch.epoch, plan) for plan in gone]
        # What each expects is taken now, with the judgement: a plan that goes on meanwhile has to refuse it (R8).
        writes = [Write(key, None, view.expected(key)) for key in keys]
        await delete(self._ledger, writes)

    def _forget_gone(self) -> None:
        view = self._cluster.book.ledger
        # Of all keys that know deletions, plans' alone are written here, and never again once they are deleted.
        view.forget_markers(self._clock.monotonic(), 0.0)
        self._fresh = {plan for plan in self._fresh if plan in view.plans}
        read_to = (view.epoch.epoch, view.sequence)
        if read_to < self._read_to:
            return  # LEDGER is being read again: a plan that is not seen may be there
        self._read_to = read_to
        begun = self._cluster.begun
        self._cluster.begun = {each for each in begun if each[0] in view.plans or each[0] in view.members}


def _epoch_of(stored: Stored | None) -> int | None:
    try:
        return decode(stored.value, Epoch).epoch if stored and not stored.deleted else None
    except InvalidMessage:
        return None


def _is_committed(stored: Stored | None) -> bool:
    try:
        return stored is not None and not stored.deleted and decode(stored.value, Plan).status is PlanStatus.COMMITTED
    except InvalidMessage:
        return False
