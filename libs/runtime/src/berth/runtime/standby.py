"""One active replica, the others ready to follow.

The lease only decides who tries: every write is guarded by the sequence it expects, so two replicas that both believe
to be active are a waste, not a fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from berth.telemetry import gauge

if TYPE_CHECKING:
    from berth.bus.port import BusPort

_ACTIVE = gauge("berth_runtime_active", "1 while this replica is the active one.", ["lease"])


class ActiveStandby:
    """Works while it holds a lease of the bus."""

    def __init__(self, bus: BusPort, name: str, holder: str, *, ttl_s: int = 6) -> None:
        self._name = name
        self._changed = asyncio.Event()
        self._lease = bus.lease(name, holder, ttl_s=ttl_s, on_change=self._note)
        _ACTIVE.labels(name).set(0)

    @property
    def active(self) -> bool:
        """Whether this replica holds the lease, as far as it knows."""
        return self._lease.active

    def check(self) -> tuple[bool, str]:
        """For `Health.add`: a standby is ready too, since it can take over."""
        return True, "active" if self.active else "standby"

    async def until(self, active: bool) -> None:
        """Return when this replica is active, or is not."""
        while self._lease.active != active:
            self._changed.clear()
            await self._changed.wait()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Keep trying for the lease; run `work` each time it is won and cancel it when it is lost.

        Ends when cancelled (the lease is given back), when `work` returns while active, or with what either raises.
        """
        lease = asyncio.ensure_future(self._lease.run())
        try:
            while await self._one_term(lease, work):
                pass
        finally:
            await _end(lease)

    async def _one_term(self, lease: asyncio.Future[None], work: Callable[[], Awaitable[None]]) -> bool:
        """From standby through one time of being active; whether to go on."""
        if not await _unless(lease, self.until(True)):
            return False
        working = asyncio.ensure_future(work())
        lost = asyncio.ensure_future(self.until(False))
        try:
            await asyncio.wait({working, lost, lease}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
                return False
            if lease.done():
                lease.result()
                return False
        finally:
            await _end(lost)
            await _end(working)
        if not working.cancelled():
            working.result()
        return True

    def _note(self, active: bool) -> None:
        _ACTIVE.labels(self._name).set(1 if active else 0)
        self._changed.set()


async def _unless(other: asyncio.Future[None], waiting: Awaitable[None]) -> bool:
    """Wait for `waiting`; False (or its exception) when `other` ends first."""
    task = asyncio.ensure_future(waiting)
    try:
        await asyncio.wait({task, other}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        other.result()
        return False
    finally:
        await _end(task)


async def _end(task: asyncio.Future[None]) -> None:
    """Cancel and wait until it has finished its clean-up; what it raised before is the business of who awaits it."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait({task})
