"""What waiting pods are to be judged by and that is still on its way: quota groups, and capacity that is kept for
them."""

from __future__ import annotations

from collections.abc import Iterable

from berth.contracts import names
from berth.contracts.base import Reason
from berth.contracts.state import Pod
from berth.placement_solver.core.awaited_quotas import ElasticQuotas
from berth.placement_solver.core.awaited_reservations import AwaitedReservations
from berth.placement_solver.core.payers import Payers
from berth.placement_solver.core.queue import Waiting
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.waits import WORKED_OUT_S, Wait
from berth.rules.reservation_match import reservation_request_of


class AwaitedInputs:
    """What STATE shows and its manager has yet to publish. Times are monotonic seconds."""

    def __init__(self, quotas: Quotas, payers: Payers) -> None:
        self.elastic_quotas = ElasticQuotas()
        self.capacity = AwaitedReservations()
        self._quotas = quotas
        self._payers = payers
        self._some_quota = False
        self._proven = 0

    def reset_state(self) -> None:
        """STATE starts over."""
        self.elastic_quotas.reset()
        self.capacity.reset_state()

    def longest_wait(self, members: Iterable[Waiting], now: float) -> tuple[Wait, Waiting] | None:
        """The longest wait of any of these, and whose it is; None: they may all be tried.

        The time of a pod that waits for capacity counts from here, once for all such capacity.
        """
        longest: tuple[Wait, Waiting] | None = None
        for member in members:
            quota, capacity = self._quota_wait(member), self._reservation_wait(member, now)
            self._some_quota |= quota is not None and now < quota.until
            for wait in (quota, self._hook_wait(member), capacity):
                if wait is not None and now < wait.until and (longest is None or wait.until > longest[0].until):
                    longest = wait, member
        return longest

    def ends_waits(self, *, is_news: bool) -> bool:
        """Whether those who wait for a quota are to be tried again: there is news of one, or more is proven of all."""
        proven, before = self.elastic_quotas.complete.version, self._proven
        self._proven = proven
        if not self._some_quota or not (is_news or proven != before):
            return False
        self._some_quota = False
        return True

    def _quota_wait(self, waiting: Waiting) -> Wait | None:
        label = waiting.template.labels.get(names.LABEL_QUOTA_NAME)
        if not label or self._quotas.knows(label):
            return None
        return self.elastic_quotas.wait_of(label, waiting.named_at, waiting.named_version)

    def _hook_wait(self, waiting: Waiting) -> Wait | None:
        """For what hooks say of it: only where quota-manager is set to ask some."""
        if not self._quotas.rules.hooks or not isinstance(waiting.object, Pod):
            return None
        return self._payers.surcharges.wait_of(waiting.object, self._payers.of(waiting.object), waiting.since)

    def _reservation_wait(self, waiting: Waiting, now: float) -> Wait | None:
        if not self.capacity or not isinstance(waiting.object, Pod):
            return None
        wish = reservation_request_of(waiting.object)
        name = self.capacity.of(wish) if wish is not None else None
        if name is None:
            return None
        if waiting.held_for_reservation_at is None:
            waiting.held_for_reservation_at = now
        reason = Reason(
            code="reservation",
            message=f"reservation {name} has a node, its capacity is not published yet",
            repair="none needed; if this lasts, see whether reservation-manager works",
        )
        return Wait(waiting.held_for_reservation_at + WORKED_OUT_S, reason)
