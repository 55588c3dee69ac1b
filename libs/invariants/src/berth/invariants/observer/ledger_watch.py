"""LEDGER as its server stores it: who is decided, and whether a decision ends as it should (I4, I6, I12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from berth.contracts import names
from berth.contracts.errors import InvalidMessage
from berth.contracts.grants import granted
from berth.contracts.ledger import Decision, Plan, PlanStatus
from berth.invariants.counts import Excuse
from berth.invariants.facts import dumped
from berth.invariants.log import LogEntry
from berth.invariants.observer.calm import NEVER, Calm
from berth.invariants.observer.capacity import Capacity
from berth.invariants.observer.decided import Decided
from berth.invariants.observer.evictions import Evictions
from berth.invariants.observer.fitness import Fitness
from berth.invariants.observer.gang_watch import GangWatch
from berth.invariants.observer.growths import is_carried_out
from berth.invariants.observer.holds import CORES, DEVICES
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.reclaims import Reclaims
from berth.invariants.observer.reserved import Reserved
from berth.invariants.observer.shares import Shares
from berth.invariants.observer.sight import Reader
from berth.invariants.observer.verdicts import Verdicts
from berth.invariants.observer.withdrawals import Withdrawals
from berth.rules.quota_of_pod import BUILT_IN_GROUPS, ROOT_GROUP
from berth.transaction.ledger_view import Change, Held, LedgerView

Name = tuple[str, str]
NOBODYS: Final = BUILT_IN_GROUPS | {""}
"""The groups of pods that belong to no other: nobody's share is counted in them."""


class LedgerWatch:
    """The fold of the ledger, and a judgement of each message.

    `seen` gives the object of a name as the API shows it, `claim` works out anew what a name holds; `laws` judge
    each decision beside what is there.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        decided: Decided,
        capacity: Capacity,
        gangs: GangWatch,
        reserved: Reserved,
        fitness: Fitness,
        withdrawals: Withdrawals,
        evictions: Evictions,
        calm: Calm,
        shares: Shares,
        reclaims: Reclaims,
        *,
        laws: Iterable[Callable[[Decision], None]],
        seen: Callable[[Name], Watched | None],
        claim: Callable[[Name], None],
        keep_log: bool,
        limit_s: float,
    ) -> None:
        self.view = LedgerView()
        self.held: dict[Name, Held] = {}
        self._stored: dict[str, tuple[int, bytes]] = {}
        self.log: list[LogEntry] | None = [] if keep_log else None
        self._verdicts = verdicts
        self._decided = decided
        self._capacity = capacity
        self._gangs = gangs
        self._reserved = reserved
        self._fitness = fitness
        self._withdrawals = withdrawals
        self._evictions = evictions
        self._calm = calm
        self._shares = shares
        self._reclaims = reclaims
        self._laws = tuple(laws)
        self._limit_s = limit_s
        self._doubt_since_s = NEVER
        self._seen = seen
        self._claim = claim

    def message(self, key: str, value: bytes, deleted: bool, sequence: int) -> None:
        """The next message that LEDGER has stored."""
        if self.log is not None:
            self.log.append(LogEntry(sequence, key, value, deleted))
        self._verdicts.sequence = sequence
        if deleted:
            self._stored.pop(key, None)
        else:
            self._stored[key] = (sequence, value)
        if ".account." in key and key[0] == "e":
            self._apply(key, value, deleted, sequence)
            return
        change = self._apply(key, value, deleted, sequence)
        if change is None:
            return
        if change.name is not None:
            self._decision_changed(change.name)
        elif change.plan:
            self._plan_changed(change.plan)
        elif change.epoch:
            self._epoch_changed()

    def lost(self, survivors: Iterable[tuple[str, bytes, bool, int]] = ()) -> None:
        """LEDGER lost its tail, or everything: `survivors` are the messages (key, value, deleted, sequence) left.

        Nothing has happened when they are all that there was. A gang that had begun is excused only if LEDGER no longer
        agrees with the Lease: else its plan is still there, and goes on.
        """
        survivors = list(survivors)
        left = {key: (sequence, value) for key, value, deleted, sequence in survivors if not deleted}
        used_until = self._verdicts.sequence
        if left == self._stored:
            if used_until > max((sequence for _, _, _, sequence in survivors), default=0):
                self._capacity.doubt.begins(used_until, ())  # deletion markers alone: their sequences come again
            return
        self._stored = left
        self._shares.lost()
        self._reclaims.lost()
        begun = self._begun()
        before, plans = set(self.held), self.view.plans
        self._fold_anew(survivors)
        changed = self._decided.lost(self.view.epoch.epoch, plans, self.view.plans)
        held = (held.decision for held in self.held.values())
        self._capacity.doubt.begins(used_until, (each.uid for each in held if each.plan in changed))
        if self._capacity.doubt.is_whole:
            self._gangs.excuse_started(begun)
        for name in sorted(before | set(self.held)):
            self._claim(name)

    def check_doubt(self) -> None:
        """LEDGER and the Lease do not agree: somebody has to raise the epoch soon."""
        now_s = self._calm.now_s
        self._doubt_since_s = min(self._doubt_since_s, now_s)
        if now_s - self._doubt_since_s > self._limit_s:
            text = f"LEDGER has lost what the Lease names, and for {now_s - self._doubt_since_s:.1f} s without a fault"
            self._verdicts.add("I12", "a loss", f"{text} nobody has raised the epoch")
            self._capacity.doubt.is_whole = False
            self._doubt_since_s = NEVER

    def _begun(self) -> list[str]:
        """Gangs that may be in the midst of their binds."""
        decisions = (held.decision for held in self.held.values())
        named = {each.gang.name for each in decisions if each.gang and self._decided.may_have_begun(each.plan)}
        return [*(gang for group in sorted(named) for gang in group.split(",")), *self._gangs.half_there()]

    def _fold_anew(self, messages: list[tuple[str, bytes, bool, int]]) -> None:
        self.view.reset()
        if self.log is not None:
            self.log.clear()
        for key, value, deleted, sequence in messages:
            if self.log is not None:
                self.log.append(LogEntry(sequence, key, value, deleted))
            self._apply(key, value, deleted, sequence)
        self.held = {name: held for name, held in self.view.decisions.items() if not held.decision.nominates}

    def _apply(self, key: str, value: bytes, deleted: bool, sequence: int) -> Change | None:
        self._verdicts.judged("I0")
        try:
            return self.view.apply(key, value, deleted, sequence)
        except (InvalidMessage, ValueError) as error:
            self._verdicts.add("I0", f"ledger {key}", f"ledger key {key} cannot be read: {error}")
            return None

    def _decision_changed(self, name: tuple[str, str]) -> None:
        before = self.held.get(name)
        now = self.view.decisions.get(name)
        if now is not None and now.decision.nominates:
            self._evictions.nominated(now.decision)
            self._reclaims.nominated(now.decision)
            now = None  # nothing is bound under it, and its victims are still there: it takes nothing from anybody yet
        if before is not None and (now is None or not _says_the_same(before.decision, now.decision)):
            self._judge_end(name, before.decision, now.decision if now else None)
        if now is None:
            self.held.pop(name, None)
        else:
            self.held[name] = now
            self._capacity.doubt.decided(now.decision.uid, now.sequence)
            self._decided.add(now.decision, self.view.epoch.epoch)
            self._fitness.decided(now.decision)
            for judge in self._laws:
                judge(now.decision)
            if now.decision.reservation_uid or now.decision.loans:
                self._reserved.decided(now.decision)
            if _group_of(now.decision) in NOBODYS:
                self._judge_payer(name, now.decision)
            if granted(now.decision.allocation):
                self._judge_unmarked(name, now.decision)
        if before is not None and (now is None or now.decision.uid != before.decision.uid):
            self._capacity.doubt.over(before.decision.uid)
            self._forget_absent(before.decision.uid, name)
        self._claim(name)
        if now is not None:
            self._evictions.decided(now.decision, self.view)

    def _judge_payer(self, name: tuple[str, str], decision: Decision) -> None:
        """Nobody is charged: only for a pod that names no quota group which has been there for a while.

        What the pod names is compared where the solver had read this version of it, or a later one.
        """
        pod, charged = self._seen(name), _group_of(decision)
        if pod is None or pod.uid != decision.uid:
            return
        if decision.pod_version < pod.version:
            self._verdicts.excused("I2", Excuse.OLDER_POD)
            return
        self._verdicts.judged("I2")
        label = pod.labels.get(names.LABEL_QUOTA_NAME)
        group = self._capacity.groups.get(label) if label and label not in (charged, ROOT_GROUP) else None
        sight = self._capacity.sight
        if group is not None and not sight.has_seen(Reader.QUOTA, group.since_s):
            self._verdicts.excused("I2", sight.excuse(group.since_s))
        elif group is not None:
            text = f"{'/'.join(name)}: names quota {label}, and plan {decision.plan} charges {charged or 'nobody'}"
            self._verdicts.add("I2", f"{'/'.join(name)}, plan {decision.plan}", text)

    def _judge_unmarked(self, name: tuple[str, str], decision: Decision) -> None:
        """Things are given out of a node on which somebody holds things of their kind that nobody can name."""
        for kinds, what, promise in ((DEVICES, "devices", "I1"), (CORES, "CPUs or NUMA nodes", "I23")):
            if not any(each.kind in kinds for each in granted(decision.allocation)):
                continue
            others = list(self._capacity.unmarked(decision.node, kinds, promise))
            if others:
                text = f"is given {what} of {decision.node}, where {others[0]} holds nobody knows which"
                self._verdicts.add(promise, f"{'/'.join(name)}, plan {decision.plan}", f"{'/'.join(name)}: {text}")

    def _judge_end(self, name: tuple[str, str], decision: Decision, successor: Decision | None) -> None:
        """A decision leaves LEDGER: only when it is settled (R3), and that is final, so the truth shows it, too."""
        if self.is_settled(name, decision) or is_carried_out(decision, successor, self._seen(name)):
            self._verdicts.judged("I6")
            return
        if self._capacity.doubt.covers((decision.uid,)):
            self._verdicts.excused("I6", Excuse.LOSS)
            return
        if successor is None and self._decided.lease_epoch > self.view.epoch.epoch:
            # Nothing is begun in this one, and cluster-writer makes space in a full LEDGER for the later one.
            self._verdicts.excused("I6", Excuse.EPOCH_OVER)
            return
        self._verdicts.judged("I6")
        what = f"replaced by plan {successor.plan} for {successor.node}" if successor else "deleted"
        pod = self._seen(name)
        how = f"its pod is bound to {pod.node}" if pod is not None and pod.node else "its pod is there, unbound"
        text = f"{'/'.join(name)}: the decision of plan {decision.plan} for {decision.node} is {what}, and {how}"
        self._verdicts.add("I6", f"{'/'.join(name)}, plan {decision.plan}", text)

    def is_settled(self, name: tuple[str, str], decision: Decision) -> bool:
        """Its pod is gone, has ended or shows a higher attempt, or its plan was given up: all of them are final."""
        pod = self._seen(name)
        if pod is None or pod.uid != decision.uid or pod.has_ended or pod.attempt > decision.attempt:
            return True
        return self.view.plan_status(decision.plan) is PlanStatus.ABORTED

    def _plan_changed(self, plan: str) -> None:
        entry: Plan | None = self.view.plans.get(plan)
        if entry is None:
            self._decided.plan_deleted(plan)
            return
        before = self._decided.plan(entry)
        self._shares.planned(plan, self.view.stamps)
        self._reclaims.planned(plan, self.view.stamps)
        self._verdicts.judged("I12")
        if before in (PlanStatus.COMMITTED, PlanStatus.ABORTED) and entry.status is not before:
            text = f"plan {plan} was {before} and is {entry.status}"
            self._verdicts.add("I12", f"plan {plan}", text)
        if entry.status is PlanStatus.ABORTED:
            for name in list(self.view.members.get(plan, ())):
                self._claim(name)

    def _epoch_changed(self) -> None:
        epoch = self.view.epoch.epoch
        if epoch < self._decided.newest_epoch and self._capacity.doubt.is_whole:
            self._verdicts.excused("I12", Excuse.LOSS)
        else:
            self._verdicts.judged("I12")
            if epoch < self._decided.newest_epoch:
                text = f"the epoch goes back from {self._decided.newest_epoch} to {epoch}"
                self._verdicts.add("I12", f"epoch {epoch}", text)
        self._doubt_since_s = NEVER
        if epoch == self._decided.newest_epoch:
            self._decided.epoch_is_back()
        if epoch > self._decided.newest_epoch:
            self._decided.epoch_begins(epoch)
            self._withdrawals.epoch_begins()
        names_before = list(self.held)
        uids = {held.decision.uid: name for name, held in self.held.items()}
        self.held.clear()
        for uid, name in uids.items():
            self._forget_absent(uid, name)
        for name in names_before:
            self._claim(name)

    def _forget_absent(self, uid: str, name: tuple[str, str]) -> None:
        seen = self._seen(name)
        if seen is None or seen.uid != uid:
            self._decided.forget(uid)


def _group_of(decision: Decision) -> str:
    return decision.quota.rpartition("/")[2]


def _says_the_same(one: Decision, other: Decision) -> bool:
    return (one.plan, one.uid, one.attempt, one.node) == (other.plan, other.uid, other.attempt, other.node) and dumped(
        granted(one.allocation)
    ) == dumped(granted(other.allocation))
