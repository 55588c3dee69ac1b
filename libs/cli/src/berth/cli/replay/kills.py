"""`--kill`: every service and the bus are killed once, one after the other, while the pods come in."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from berth.cli.stack.process import Process
from berth.cli.stack.stack import NATS_SERVER, Stack

FIRST_AFTER_S = 2.0
EVERY_S = 3.0


async def kill_each(stack: Stack, say: Callable[[str], None]) -> int:
    """Kill (SIGKILL) each process but the simulated API, which stands for Kubernetes; how many."""
    await asyncio.sleep(FIRST_AFTER_S)
    names = [*(process.name for process in stack.services()), NATS_SERVER]
    for name in names:
        process = stack.processes[name]
        await _running(process)
        say(f"kill -9 {name}")
        process.signal(signal.SIGKILL)
        await asyncio.sleep(EVERY_S)
    for name in names:
        await _running(stack.processes[name])
    return len(names)


async def _running(process: Process) -> None:
    """Return once it runs."""
    while not process.pid:  # noqa: ASYNC110 - another task starts it; there is nothing to wait on
        await asyncio.sleep(0.1)
