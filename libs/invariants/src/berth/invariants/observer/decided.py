"""What LEDGER has held: decisions by pod and plan, for as long as the pod may still be bound by one; plans in order.

LEDGER itself forgets (a DEL marker, a lost tail). Here a decision is remembered until its pod is gone, so that a bind
can be compared with what was decided whenever it lands.
"""

from __future__ import annotations

from typing import NamedTuple

from berth.contracts.ledger import Decision, Plan, PlanStatus


class Record(NamedTuple):
    """A decision with the epoch it was written in."""

    decision: Decision
    epoch: int


class Decided:
    """Decisions by uid and plan, and which plans were committed, in which order."""

    def __init__(self) -> None:
        self.by_uid: dict[str, dict[str, Record]] = {}
        self.newest_epoch = 0
        self._members: dict[str, int] = {}
        self._committed: dict[str, int] = {}
        self._lapsed: dict[str, int] = {}
        self._acted = 0
        self._count = 0
        self._status: dict[str, PlanStatus] = {}

    def add(self, decision: Decision, epoch: int) -> None:
        """A decision was written."""
        plans = self.by_uid.setdefault(decision.uid, {})
        if decision.plan not in plans:
            self._members[decision.plan] = self._members.get(decision.plan, 0) + 1
        plans[decision.plan] = Record(decision, epoch)

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

        Also where LEDGER lost it a moment ago: the leader was asked before that, and the API server took its time. As
        long as no new epoch has begun nobody can have planned on its room.
        """
        position = self._committed.get(plan, 0) or self._lapsed.get(plan, 0)
        back = {each for each, at in self._lapsed.items() if at <= position}
        for each in sorted(back):
            self._committed[each] = self._lapsed.pop(each)
        self._acted = max(self._acted, position)
        if not back:
            return set()
        records = [record for plans in self.by_uid.values() for each, record in plans.items() if each in back]
        return {record.decision.gang.name for record in records if record.decision.gang is not None}

    def epoch_begins(self, epoch: int) -> None:
        """What was lost before is over."""
        self.newest_epoch = epoch
        self._lapsed.clear()

    def lost(self, committed_still: set[str]) -> None:
        """LEDGER lost something. A plan whose entry is gone, and that nobody had acted on, was never committed, unless
        the Lease names it still."""
        for plan, position in list(self._committed.items()):
            if position > self._acted and plan not in committed_still:
                self._lapsed[plan] = self._committed.pop(plan)
        # A plan whose entry is lost may be given up by whoever finds decisions without one: nobody acts on either.
        self._status = {plan: status for plan, status in self._status.items() if plan in committed_still}

    def was_committed(self, plan: str) -> bool:
        """Whether somebody may bind under this plan."""
        return plan in self._committed

    def may_have_begun(self, plan: str) -> bool:
        """Whether somebody may have acted on the plan already."""
        return 0 < self._committed.get(plan, 0) <= self._acted
