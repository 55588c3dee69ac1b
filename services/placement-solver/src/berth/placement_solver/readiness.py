"""Whether the views may be planned on: rules R12, R14 and R15, and inputs that have been read to their end."""

from __future__ import annotations

from collections.abc import Mapping

from berth.bus.port import Clock
from berth.contracts import buckets
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.reading import NODE_METRICS

FOLLOW_TIMEOUT_S = 10.0
MUST_BE_READ = frozenset(
    {
        buckets.STATE,
        buckets.LEDGER,
        buckets.QUOTA,
        buckets.INVENTORY,
        buckets.RESERVATION,
        buckets.SLO,
        buckets.METRICS,
        NODE_METRICS,
    }
)
"""If it is followed at all."""


class Readiness:
    """Of one solver's views."""

    def __init__(self, cluster: ClusterView, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._needs_sequence, self._needed_since = 0, 0.0
        self._ledger_starts = 0
        self._awaited: set[str] = set()

    def may_plan(self) -> bool:
        """Rules R12 and R15, and views that have been read to their end.

        Who has not read Reservations since STATE began anew would give their capacity away, and who has not read QUOTA
        would charge nobody.
        """
        cluster = self._cluster
        book = cluster.book
        epoch = book.ledger.epoch
        pods, reservations = book.complete["pods"], book.complete["reservations"]
        if self._ledger_starts != cluster.ledger_starts:
            # Another stream counts from its own start.
            self._ledger_starts, self._needs_sequence = cluster.ledger_starts, 0
        if self._clock.monotonic() - self._needed_since > FOLLOW_TIMEOUT_S:
            # What was acknowledged may be lost before anybody has read it; R1 refuses who plans without it.
            self._needs_sequence = 0
        return (
            epoch.epoch > 0
            and not self._awaited
            and cluster.knows_quotas()
            and cluster.configuration.is_known
            and pods.is_known
            and pods.version >= epoch.pods_version
            and reservations.is_known
            and reservations.version >= epoch.reservations_version
            and book.ledger.sequence >= self._needs_sequence
            and not book.ledger.unreadable
        )

    def require(self, sequence: int) -> None:
        """Plan again on a view that has read LEDGER so far."""
        if sequence > self._needs_sequence:
            self._needs_sequence, self._needed_since = sequence, self._clock.monotonic()

    def read_to_end(self, bucket: str) -> None:
        """A follower has reached the end of its bucket."""
        self._awaited.discard(bucket)

    def starts_over(self, bucket: str) -> None:
        """A follower reads its bucket from the start: nothing is planned before it has reached the end."""
        if bucket in MUST_BE_READ:
            self._awaited.add(bucket)

    def is_behind(self, revisions: Mapping[str, int]) -> bool:
        """Rule R14: an account that names a newer revision than ours is planned on only after catching up."""
        stamps = self._cluster.book.ledger.stamps
        return any(
            (stamp := stamps.get(account)) is not None and stamp.revision > revision
            for account, revision in revisions.items()
            if account.startswith("quota.")
        )
