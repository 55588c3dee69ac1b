"""What LEDGER has held: decisions by pod and plan, for as long as the pod may still be bound by one; plans in order.

LEDGER itself forgets (a DEL marker, a lost tail). Here a decision is remembered until its pod is gone, so that a bind
can be compared with what was decided whenever it lands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from berth.contracts.ledger import Decision, Plan, PlanStatus
from berth.invariants.observer.doubt import Doubt


class Record(NamedTuple):
    """A decision with the epoch it was written in."""

    decision: Decision
    epoch: int


class Decided:
    """Decisions by uid and plan, and which plans were committed, in which order."""

    def __init__(self, doubt: Doubt) -> None:
        self.by_uid: dict[str, dict[str, Record]] = {}
        self.newest_epoch = 0
        self.lease_epoch = 0
        """The one that the Lease names: a newer one is being raised."""
        self.doubt = doubt
        self._members: dict[str, int] = {}
        self._committed: dict[str, int] = {}
        self._lapsed: dict[str, int] = {}
        self._acted = 0
        self._named = ""
        self._count = 0
        self._status: dict[str, PlanStatus] = {}

    def add(self, decision: Decision, epoch: int) -> None:
        """A decision was written."""
        plans = self.by_uid.setdefault(decision.uid, {})
        if decision.plan not in plans:
            self._members[decision.plan] = self._members.get(decision.plan, 0) + 1
        plans[decision.plan] = Record(decision, epoch)

    def of(self, uid: str, attempt: int) -> list[Record]:
        """What was decided of a pod at this attempt."""
        return [each for each in self.by_uid.get(uid, {}).values() if each.decision.attempt == attempt]

    def forget(self, uid: str) -> None:
        """The pod is gone and nothing in LEDGER names it."""
        for plan in self.by_uid.pop(uid, {}):
            left = self._members[plan] - 1
            if left:
                self._members[plan] = left
                continue
            del self._members[plan]
            if self._status.get(plan) is not PlanStatus.OPEN:
                self._status.pop(plan, None)
                self._committed.pop(plan, None)

    def plan(self, plan: Plan) -> PlanStatus | None:
        """A plan entry was written; the status that it had before."""
        before = self._status.get(plan.id)
        self._status[plan.id] = plan.status
        if plan.status is PlanStatus.COMMITTED and plan.id not in self._committed:
            self._count += 1
            self._committed[plan.id] = self._count
        return before

    def plan_deleted(self, plan: str) -> None:
        """Its entry was deleted; it still counts for the pods that it named."""
        if plan not in self._members:
            self._status.pop(plan, None)
            self._committed.pop(plan, None)

    def acted_on(self, plan: str) -> set[str]:
        """The writer's Lease names this plan: it, and every one before it, may have been acted on. Returns the gangs of
        those that LEDGER has lost: they may begin all the same.

        Also where LEDGER lost it a moment ago: the leader was asked before that, and the API server took its time.
        What they hold is in doubt then, since somebody may have planned on its capacity meanwhile.
        """
        position = self._committed.get(plan, 0) or self._lapsed.get(plan, 0)
        back = {each for each, at in self._lapsed.items() if at <= position}
        for each in sorted(back):
            self._committed[each] = self._lapsed.pop(each)
        self._acted = max(self._acted, position)
        self._named = plan or self._named
        if not back:
            return set()
        decisions = [
            record.decision for plans in self.by_uid.values() for each, record in plans.items() if each in back
        ]
        self.doubt.of.update(each.uid for each in decisions)
        self.doubt.is_whole = self.doubt.is_whole or plan in back
        return {each.gang.name for each in decisions if each.gang is not None}

    def epoch_is_back(self) -> None:
        """The newest epoch was lost and is written again, which the writer that raises it does until it stays."""
        if not self._named:
            self.doubt.is_whole = False

    def epoch_begins(self, epoch: int) -> None:
        """What was lost before is over."""
        self.newest_epoch = epoch
        self._named = ""
        self._lapsed.clear()
        self.doubt.ends()

    def lost(self, epoch: int, before: Mapping[str, Plan], now: Mapping[str, Plan]) -> set[str]:
        """LEDGER lost something: its epoch now, and its plans before and now. Returns plans of which it says otherwise.

        A plan whose entry is gone, and that nobody had acted on, was never committed, unless the Lease names it still.
        One that is lost with its entry may be given up by a solver that finds its decisions: nobody acts on either.
        """
        were, are = ({each.id: each.status for each in plans.values()} for plans in (before, now))
        changed = {plan for plan in were.keys() | are.keys() if were.get(plan) is not are.get(plan)}
        if epoch != self.newest_epoch or self._named in changed:
            self.doubt.is_whole = True
        for plan, position in list(self._committed.items()):
            if position > self._acted and are.get(plan) is not PlanStatus.COMMITTED:
                self._lapsed[plan] = self._committed.pop(plan)
        self._status = are
        return changed

    def was_committed(self, plan: str) -> bool:
        """Whether somebody may bind under this plan."""
        return plan in self._committed

    def may_have_begun(self, plan: str) -> bool:
        """Whether somebody may have acted on the plan already."""
        return 0 < self._committed.get(plan, 0) <= self._acted
