"""What rounds need of the world, as far as a view that belongs to nobody else goes."""

from __future__ import annotations

from collections.abc import Sequence

from berth.bus.port import Committed, Stored, Write
from berth.contracts.codec import decode
from berth.contracts.ledger import Decision
from berth.placement_solver.cluster_view import ClusterView


class Hourglass:
    """Time that passes only where somebody waits for it."""

    def __init__(self, now: float, monotonic: float) -> None:
        self._now, self._monotonic = now, monotonic

    def now(self) -> float:
        """See `Clock`."""
        return self._now

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """So much passes."""
        self._now += seconds
        self._monotonic += seconds

    async def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        self.advance(seconds)


class OwnLedger:
    """A ledger that one view alone reads, at once; `decided` are the decisions since somebody took them."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self.decided: list[Decision] = []

    async def commit(self, writes: Sequence[Write], *, traceparent: str | None = None) -> Committed:
        """See `LedgerPort`: nobody else writes, so that nothing is refused."""
        for write in writes:
            sequence = self._cluster.book.ledger.sequence + 1
            self._cluster.read_ledger(write.key, write.value or b"", write.value is None, sequence)
            if write.value is not None and ".decision." in write.key:
                self.decided.append(decode(write.value, Decision))
        return Committed(self._cluster.book.ledger.sequence)

    async def read(self, key: str) -> Stored | None:
        """See `LedgerPort`."""
        return None

    async def keys(self, pattern: str) -> list[str]:
        """See `LedgerPort`."""
        return []


class Nowhere:
    """Events and commands that nobody reads."""

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        id: str,  # noqa: A002 - the name of the attribute on the wire
        type: str,  # noqa: A002
        traceparent: str | None = None,
    ) -> None:
        """See `PublisherPort`."""

    def offer(
        self,
        subject: str,
        payload: bytes,
        *,
        id: str,  # noqa: A002
        type: str,  # noqa: A002
        traceparent: str | None = None,
    ) -> bool:
        """See `PublisherPort`."""
        return True

    async def drain(self) -> None:
        """See `PublisherPort`."""
