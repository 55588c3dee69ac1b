"""How long to wait before the next try: growing, capped, and spread out so that a herd does not come back together."""

from __future__ import annotations

import random

RETRY_AFTER_MAX_S = 300.0


class Backoff:
    """Exponential waiting with full jitter ("Exponential Backoff And Jitter", AWS Architecture Blog).

    The first wait is anywhere between 0 and `base_s`, each further one between 0 and twice the former limit, up to
    `cap_s`. `reset` starts over; call it when something worked.
    """

    def __init__(self, rng: random.Random, *, base_s: float = 0.2, cap_s: float = 30.0) -> None:
        self._rng = rng
        self._base_s = base_s
        self._cap_s = cap_s
        self._limit_s = base_s

    def next(self, at_least_s: float | None = None) -> float:
        """Seconds to wait now. `at_least_s` is what the server asked for (Retry-After); it is jittered upwards only."""
        wait_s = self._rng.uniform(0.0, self._limit_s)
        self._limit_s = min(self._limit_s * 2, self._cap_s)
        if at_least_s is not None:
            wait_s += min(max(at_least_s, 0.0), RETRY_AFTER_MAX_S)
        return wait_s

    def reset(self) -> None:
        """The next wait is short again."""
        self._limit_s = self._base_s
