"""Timers through the clock that a service is given."""

import random
from collections.abc import AsyncIterator

from berth.runtime.clock import Clock


class Periodic:
    """A tick every `interval_s`, without drift. A tick that could not be taken in time is skipped, not made up for.

    With `jitter` (a share of the interval, 0 to 1) and a source of randomness the first tick comes somewhere in the
    first such share, so that replicas started together don't tick together.
    """

    def __init__(
        self, clock: Clock, interval_s: float, *, jitter: float = 0.0, rng: random.Random | None = None
    ) -> None:
        if not interval_s > 0:
            raise ValueError(f"interval_s: {interval_s} is not above 0")
        if not 0 <= jitter <= 1:
            raise ValueError(f"jitter: {jitter} is not between 0 and 1")
        self._clock = clock
        self._interval_s = interval_s
        self._delay_s = jitter * interval_s * rng.random() if rng is not None else 0.0

    async def ticks(self, *, at_once: bool = False) -> AsyncIterator[float]:
        """The time of each tick (Unix seconds), for ever; the first one interval from now, or now."""
        due = self._clock.monotonic() + self._delay_s + (0.0 if at_once else self._interval_s)
        while True:
            await self._clock.sleep(due - self._clock.monotonic())
            yield self._clock.now()
            late_s = self._clock.monotonic() - due
            due += self._interval_s * (1 + max(0, int(late_s // self._interval_s)))
