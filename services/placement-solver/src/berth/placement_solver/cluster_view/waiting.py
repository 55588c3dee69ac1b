"""Who waits, whose turn it is, and what is handed out to be decided."""

from __future__ import annotations

from collections.abc import Iterable

from berth.contracts.base import Reason
from berth.contracts.state import (
    Pod,
    Reservation,
)
from berth.placement_solver.cluster_view.holdings import Holdings
from berth.placement_solver.core.batches import Failed
from berth.placement_solver.core.displacers.turns import Turn, turn_of
from berth.placement_solver.core.groups import Gang, Readiness, pods_of
from berth.placement_solver.core.plan import Candidate, Unit
from berth.placement_solver.core.queue import Waiting
from berth.placement_solver.core.shards import foreign_nodes, owner
from berth.placement_solver.core.surcharges import NO_GROUPS
from berth.placement_solver.core.twins import NO_TWIN, twin_of
from berth.rules.gang_member import counts_as_member
from berth.rules.quota_payer import charged
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Name, name_of


class WaitingRules(Holdings):
    """The rules of waiting: which objects are this solver's, when they are pending, and what wakes them."""

    def batch(self, limit: int) -> tuple[list[Unit], list[tuple[Waiting, Reason]]]:
        """Up to about `limit` candidates as units, first ones first; and members of groups that cannot be tried yet."""
        self._split_nodes()
        self.prices.look(self.now_ms)
        return self._batches.take(limit, self.now)

    def unit_of(self, name: Name, group: str = "") -> Unit | None:
        """The unit of something that waits as `batch` would hand it out, whoever comes first: with all of its gang
        group that wait, where that is named. None: it does not wait."""
        self._split_nodes()
        return self._batches.unit_of(name, group, self.now)

    def failed(self) -> list[Failed]:
        """Those who were left out since this was asked last, for a plugin raised."""
        found, self._batches.failed = self._batches.failed, []
        return found

    def renewed(self, unit: Unit) -> Unit:
        """The unit with what constraints say of its candidates by now."""
        return self._batches.renewed(unit)

    def late_for(self, unit: Unit) -> list[Name]:
        """Members of its gangs that have come since it was taken."""
        return self._batches.late_for(unit)

    def candidates(self, listed: Iterable[Name]) -> list[Candidate]:
        """Those of some objects that wait, as they would be taken."""
        return self._batches.candidates(listed)

    def _split_nodes(self) -> None:
        key = (self.solvers, len(self.nodes), self.nodes.renamed)
        if key != self._foreign_for:
            self.solver.costs.foreign = foreign_nodes(self.nodes.names, self.me, self.solvers)
            self._foreign_for = key

    def is_ours(self, obj: Pod | Reservation) -> bool:
        """Addressed to Berth."""
        if isinstance(obj, Reservation):
            return not obj.template.scheduler or obj.template.scheduler in self.schedulers
        return obj.template.scheduler in self.schedulers

    def is_mine(self, unit: str) -> bool:
        """This solver decides the unit."""
        return len(self.solvers) < 2 or owner(unit, self.solvers) == self.me

    def resharded(self, solvers: tuple[str, ...]) -> None:
        """Other solvers are alive: every waiting object is assigned anew."""
        self.solvers = solvers
        for name in [*self.book.pods, *self.book.reservations]:
            self._judge(name)
        # Also those without a member, whose last figures may be untold by the solver that is gone.
        self.changed_gangs.update(self.pod_groups)

    def is_pending(self, obj: Pod | Reservation) -> bool:
        """It waits for a node and may have one: unbound, not ended, not going away, no gates, no open decision (R3),
        and nobody whose leaving for it has still to begin (E1)."""
        if obj.node or obj.deleting or obj.phase in FINISHED_PHASES or obj.template.gates or not self.is_ours(obj):
            return False
        return self.turn(obj) is not Turn.NOT_YET

    def turn(self, obj: Pod | Reservation) -> Turn:
        """What may be planned for an object that waits."""
        return turn_of(self.book, name_of(obj), obj)

    def _judge(self, name: Name) -> None:
        """Put a name into the queue or take it out, as the book now has it."""
        seen = self.book.seen(name)
        decision = self.book.open_decision(name)
        holds = decision is not None and seen is not None and seen.uid == decision.uid
        if holds or name not in self.book.ledger.decisions:
            self.loose.discard(name)
        else:
            self.loose.add(name)
        # A pod that has ended counts until it is deleted, a Reservation does not.
        member = seen if seen is not None and self.is_ours(seen) and counts_as_member(seen) else None
        former = self.gangs.gang_of(name)
        before = self.gangs.group_of(former.id) if former is not None else ""
        is_decided = member is not None and decision is not None and not decision.nominates
        is_nominated = decision is not None and decision.nominates
        waits = is_nominated and member is not None and self.turn(member) is Turn.NOT_YET
        gang_id = self.gangs.see(name, member, decided=is_decided, nominated=waits)
        if former is not None and self.gangs.group_of(former.id) != before:
            self._regroup(former, name)
        group = self.gangs.group_of(gang_id) if gang_id else ""
        if seen is None or not self.is_pending(seen) or not self.is_mine(group or seen.uid):
            self.queue.drop(name)
        else:
            self.queue.put(name, seen, group, self.now, self.now_ms, self._traces.pop(name, ""))
        if group:
            self.changed_gangs.add(gang_id)
            self._wake_group(group)

    def _regroup(self, gang: Gang, besides: Name) -> None:
        """The gang is of another group by what its members say now: another solver may be the one that decides it."""
        for member in sorted(gang.children - {besides}):
            self._judge(member)

    def _wake_group(self, group: str) -> None:
        """A gang's membership changed, and the group may be tried now: one waiting member stands up for all.

        Once that is enough for it to have begun, each stands for itself.
        """
        readiness: Readiness | None = None
        for name in pods_of(self.gangs.members_of_group(group), self.queue.waiting):
            waiting = self.queue.waiting[name]
            if waiting.tries and not waiting.ready and not waiting.held:
                continue
            readiness = readiness or self.gangs.readiness(group)
            if not readiness.ready:
                return
            self.queue.make_ready(waiting)
            if not readiness.satisfied:
                return

    def _settle(self) -> None:
        names = self.book.settle_waiting()
        # Whether a victim that is not shown has left depends on how complete the view is.
        names.update(each.name for each in self.book.nominations if each.victims)
        for name in sorted(names):
            self._judge(name)

    def _look_at_unread(self, *, is_news: bool = False) -> None:
        if self.awaited.ends_waits(is_news=is_news):
            self.quota_changed = True

    @property
    def has_news(self) -> bool:
        """Something happened that may help somebody who waits."""
        came = self.capacity_came_back or self.quota_changed or self.fellows_changed
        return came or bool(self.charged_anew) or bool(self.happenings)

    def wake(self) -> None:
        """Those whom it may help are tried again, each after its own back-off."""
        self.wakes += self.has_news
        if self.capacity_came_back:
            self.queue.wake(self.now, by_itself=self.is_meant)
        else:
            if self.quota_changed:
                self.queue.wake(self.now, self._waits_for_quota, by_itself=self.is_meant)
            elif self.charged_anew:
                self.queue.wake(self.now, self._is_charged_anew, by_itself=self.is_meant)
            if self.fellows_changed:
                self.queue.wake(self.now, _waits_for_defaults, by_itself=self.is_meant)
            self.queue.wake_classes(self.now, self.happenings.concern, by_itself=self.is_meant)
        self.capacity_came_back = self.quota_changed = self.fellows_changed = False
        self.charged_anew = NO_GROUPS
        self.happenings.clear()

    def twin_of(self, waiting: Waiting) -> bytes:
        """The same for those of whom the same is true, whatever they are called; empty where nobody is like it."""
        return NO_TWIN if self.is_meant(waiting) else twin_of(waiting)

    def is_meant(self, waiting: Waiting) -> bool:
        """A Reservation or placeholder may be meant for it alone."""
        pod = waiting.object
        return isinstance(pod, Pod) and (self.reservations.may_mean(pod) or self.placeholders.may_mean(pod))

    def _is_charged_anew(self, waiting: Waiting) -> bool:
        """It waits for quota, and a group pays for it for whose pods hooks say something else."""
        if not isinstance(waiting.object, Pod) or not any(reason.code == "quota" for reason in waiting.reasons):
            return False
        payer = self.payers.of(waiting.object)
        return payer is not None and payer[1] in self.charged_anew

    def _waits_for_quota(self, waiting: Waiting) -> bool:
        """It was refused for want of it, or of nodes of its tree; or its group's min promises it a place that others
        may have to give back.
        """
        if any(reason.code in ("quota", "QuotaTree") for reason in waiting.reasons):
            return True
        if not isinstance(waiting.object, Pod):
            return False
        payer, free = self.payers.of(waiting.object), self.payers.free_of(waiting.object)
        return payer is not None and self.quotas.is_promised(payer, charged(waiting.template.requests, free))


def _waits_for_defaults(waiting: Waiting) -> bool:
    """Constraints of the configuration keep it waiting."""
    is_spread = any(reason.code == "PodTopologySpread" for reason in waiting.reasons)
    return is_spread and not waiting.template.topology_spread
