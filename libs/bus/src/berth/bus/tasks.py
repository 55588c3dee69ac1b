"""How tasks end that may be inside the client library, which swallows cancellations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and return once they have ended; again and again, for the client library swallows cancellations."""
    left = [task for task in tasks if not task.done()]
    while left:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.5)
        left = [task for task in left if not task.done()]
