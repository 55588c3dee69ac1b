"""The pulse of the event loop: liveness, lag, and two things that want doing now and then."""

import asyncio
import os
from collections.abc import Callable
from typing import Final

from berth.runtime.process import freeze_garbage_collection
from berth.telemetry import Health, histogram

INTERVAL_S: Final = 0.5

_LAG = histogram(
    "berth_runtime_event_loop_lag_seconds",
    "How much later than asked the event loop woke a sleeping task.",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
)


async def pulse(health: Health, *, orphaned: Callable[[], None] | None = None, interval_s: float = INTERVAL_S) -> None:
    """Beat for ever. When the service is ready for the first time, its view is frozen out of garbage collection.

    `orphaned` is called once when the parent process is gone.
    """
    loop = asyncio.get_running_loop()
    parent = os.getppid()
    frozen = False
    while True:
        before = loop.time()
        await asyncio.sleep(interval_s)
        _LAG.observe(max(0.0, loop.time() - before - interval_s))
        health.beat()
        if not frozen and health.ready:
            frozen = True
            freeze_garbage_collection()
        if orphaned is not None and os.getppid() != parent:
            orphaned()
            orphaned = None
