"""PRICE: this solver's table is written there when other prices hold, and now and then; a solver that starts goes on
with the prices that it finds.

Nobody waits for that bucket: without it a solver begins with constants. What it has lost is written again.
"""

from __future__ import annotations

from typing import Final

from berth.bus.port import Clock, Entry, OwnedPort
from berth.contracts.base import Problem
from berth.contracts.codec import decode, encode
from berth.contracts.prices import PricesAnswer, PriceTable
from berth.contracts.subjects import prices_key
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.prices.written import answer_of, kept_of, latest, left_out, table_of
from berth.telemetry import get_logger

log = get_logger(__name__)

AGAIN_S: Final = 3600.0
"""A table is written again after so long. The bucket forgets those of solvers that are gone."""


class PriceTables:
    """What PRICE shows, and what this solver writes there."""

    def __init__(self, cluster: ClusterView, clock: Clock) -> None:
        self.bucket: OwnedPort | None = None
        self._cluster = cluster
        self._clock = clock
        self._tables: dict[str, PriceTable] = {}
        self._written = 0
        self._written_at = float("-inf")
        self._began = False

    # --- read --------------------------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> None:
        """The table of some solver. One that this version cannot read is left out by the caller."""
        self._tables.pop(entry.key, None)
        if not entry.deleted:
            self._tables[entry.key] = decode(entry.value, PriceTable)

    def reset(self) -> None:
        """The bucket is another one, or has lost something: what was written may not be there."""
        self._tables.clear()
        self._written = 0

    def end(self) -> None:
        """Everything was read: begin with what is there, unless it was looked at before."""
        if self._began:
            return
        self._began = True
        found = latest(self._tables.values(), self._cluster.me)
        if found is None:
            return
        kept = kept_of(found, self._cluster.me)
        if isinstance(kept, Problem):
            metrics.PRICES.labels("not taken up").inc()
            log.warning("prices of before are not taken up", solver=found.solver, problem=kept.message)
            return
        if (refusal := left_out(found)) is not None:
            metrics.PRICES.labels("kinds not taken up").inc()
            log.warning(
                "kinds of pods of before are not taken up",
                solver=found.solver,
                name=refusal.name,
                problem=refusal.message,
            )
        self._cluster.prices.take_up(kept)
        log.info("prices of before are taken up", solver=found.solver, version=found.version, source=found.source)

    # --- written -----------------------------------------------------------------------------------------------------

    def again(self, _: str = "") -> None:
        """What was written last is not there."""
        self._written = 0

    async def tell(self) -> None:
        """Write the table, if other prices hold or it was written long ago."""
        cluster, now = self._cluster, self._clock.monotonic()
        version = cluster.prices.version
        if self.bucket is None or not self._began or not version:
            return
        if version == self._written and now - self._written_at < AGAIN_S:
            return
        now_ms = int(self._clock.now() * 1000)
        table = table_of(cluster.prices, cluster.policy, cluster.me, now_ms)
        self.bucket.put(prices_key(cluster.me), encode(table))
        self._written, self._written_at = version, now

    # --- asked -------------------------------------------------------------------------------------------------------

    def answer(self) -> PricesAnswer:
        """What people are told."""
        cluster, now_ms = self._cluster, int(self._clock.now() * 1000)
        return answer_of(cluster.prices, cluster.policy, cluster.me, now_ms)
