"""A process that is stopped just after it has won its lease works when it goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from berth.bus.lease import BusLease
from berth.runtime import ActiveStandby
from berth.testing.virtual_loop import LoopClock, VirtualLoop


class StoppedClock(LoopClock):
    """Loses time while the process is stopped."""

    lost_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.lost_s


class Link:
    """A bus on which nobody else wants the lease."""

    def __init__(self) -> None:
        self.sequence = 0
        self.connected = asyncio.Event()
        self.connected.set()

    def token(self) -> str:
        return "t"

    async def request(self, subject: str, value: bytes, *, timeout_s: float, headers: Any) -> Any:
        await asyncio.sleep(0.01)
        self.sequence += 1
        return SimpleNamespace(data=b'{"stream":"x","seq":%d}' % self.sequence)


class Bus:
    def __init__(self, clock: LoopClock) -> None:
        self.clock = clock

    def lease(self, name: str, holder: str, *, ttl_s: int, on_change: Callable[[bool], None]) -> BusLease:
        link: Any = Link()
        return BusLease(
            link, "b", name, holder, ttl_s=ttl_s, clock=self.clock, random=random.Random(1), on_change=on_change
        )


async def scene() -> list[bool]:
    clock = StoppedClock()
    bus: Any = Bus(clock)
    standby = ActiveStandby(bus, "quota-manager", "h")
    terms: list[bool] = []

    async def work() -> None:
        terms.append(standby.active)
        if len(terms) == 1:
            clock.lost_s += 10.0  # before anybody waits for the end of the term
        await asyncio.sleep(1e6)

    task = asyncio.create_task(standby.run(work))
    await asyncio.sleep(60.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return terms


def test_whoever_holds_its_lease_works() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(scene()) == [True, True]
