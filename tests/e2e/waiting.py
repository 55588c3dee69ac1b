"""Waiting without sleeping blindly: what has to happen is looked for again and again, up to a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_S = 25.0
POLL_S = 0.05


async def until(look: Callable[[], Awaitable[T | None]], what: str, *, timeout_s: float = WAIT_S) -> T:
    """What `look` returns once that is something. Fails, saying what was waited for, when it never does."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = await look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s in vain for {what}")
        await asyncio.sleep(POLL_S)
