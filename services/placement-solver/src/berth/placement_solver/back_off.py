"""Back-off of plans that were not committed: how large the next batch may be, and how long to wait for it."""

from __future__ import annotations

import random as randomness

from berth.placement_solver import metrics
from berth.placement_solver.committing import Outcome
from berth.telemetry import get_logger

log = get_logger(__name__)

BATCH_MIN = 8
BEHIND_PAUSE_S = 0.05
CONFLICT_PAUSE_FIRST_S = 0.004
CONFLICT_PAUSE_MAX_S = 0.2
FULL_PAUSE_FIRST_S = 0.5
FULL_PAUSE_MAX_S = 5.0
DOUBLINGS_MAX = 8


class BackOff:
    """Batches after a conflict are smaller and later, so that solvers find past each other. While LEDGER is full they
    rest for seconds."""

    def __init__(self, random: randomness.Random, batch_max: int) -> None:
        self._random = random
        self._batch_max = batch_max
        self.batch = batch_max
        self._conflicts_in_row = 0
        self._full_in_row = 0

    @property
    def is_full(self) -> bool:
        """LEDGER had no space for the last plan."""
        return self._full_in_row > 0

    def committed(self) -> None:
        """A plan was committed."""
        self.batch = min(self._batch_max, self.batch * 2)
        self._conflicts_in_row = 0
        if self._full_in_row:
            log.info("the ledger takes plans again")
            metrics.LEDGER_FULL.set(0)
            self._full_in_row = 0

    def pause_s(self, outcome: Outcome) -> float:
        """A plan was not committed: how long to wait before the next one."""
        log.debug("a plan was not committed", status=outcome.status, reason=outcome.reason)
        if outcome.status == "behind":
            return BEHIND_PAUSE_S
        if outcome.status == "full":
            return self._full_pause_s()
        metrics.CONFLICTS.inc()
        self.batch = max(BATCH_MIN, self.batch // 2)
        most_s = _grown(CONFLICT_PAUSE_FIRST_S, self._conflicts_in_row, CONFLICT_PAUSE_MAX_S)
        self._conflicts_in_row += 1
        return self._random.uniform(0.0, most_s)

    def _full_pause_s(self) -> float:
        """Deletions go through meanwhile, and free space."""
        if not self._full_in_row:
            log.error("the ledger is full: nothing is placed before entries are deleted from it")
            metrics.LEDGER_FULL.set(1)
        most_s = _grown(FULL_PAUSE_FIRST_S, self._full_in_row, FULL_PAUSE_MAX_S)
        self._full_in_row += 1
        return self._random.uniform(0.5, 1.0) * most_s


def _grown(first_s: float, times: int, max_s: float) -> float:
    return min(max_s, first_s * 2.0 ** min(times, DOUBLINGS_MAX))
