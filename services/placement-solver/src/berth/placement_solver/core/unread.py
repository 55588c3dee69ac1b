"""What a waiting pod is to be judged by and that is still on its way: its quota group, and room that is kept for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from berth.contracts import names
from berth.contracts.state import Pod
from berth.placement_solver.core.queue import Waiting
from berth.placement_solver.core.quota_unread import ElasticQuotas, Wait
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.reserved import wish_of
from berth.placement_solver.core.room_unread import UnreadRoom


class Unread:
    """What STATE shows and its manager has yet to publish. Times are monotonic seconds."""

    def __init__(self, quotas: Quotas) -> None:
        self.elastic_quotas = ElasticQuotas()
        self.room = UnreadRoom()
        self._quotas = quotas
        self._some_quota = False
        self._proven = 0

    def reset_state(self) -> None:
        """STATE starts over."""
        self.elastic_quotas.reset()
        self.room.reset_state()

    def longest_wait(self, members: Iterable[Waiting], now: float) -> Wait | None:
        """The longest wait of any of these; None: they may all be tried."""
        waits = [wait for member in members for wait in self._waits(member, now)]
        return max(waits, key=lambda wait: wait.until, default=None)

    def ends_waits(self, *, is_news: bool) -> bool:
        """Whether those who wait for a quota are to be tried again: there is news of one, or more is proven of all."""
        proven, before = self.elastic_quotas.complete.version, self._proven
        self._proven = proven
        if not self._some_quota or not (is_news or proven != before):
            return False
        self._some_quota = False
        return True

    def _waits(self, waiting: Waiting, now: float) -> Iterator[Wait]:
        label = waiting.template.labels.get(names.LABEL_QUOTA_NAME)
        if label and not self._quotas.knows(label):
            wait = self.elastic_quotas.wait_of(label, waiting.named_at, waiting.named_version)
            if wait is not None and now < wait.until:  # too early to charge the default group
                self._some_quota = True
                yield wait
        if self.room and isinstance(waiting.object, Pod):
            wish = wish_of(waiting.object)
            wait = self.room.wait_of(wish.identity) if wish is not None else None
            if wait is not None and now < wait.until:
                yield wait
