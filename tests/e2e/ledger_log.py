"""Everything the ledger ever said, for tests that ask how often and by whom something was decided.

A service keeps the state of the ledger and forgets the way there; a test of the transaction needs the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from berth.bus import Bus
from berth.bus.port import Entry
from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.ledger import Decision, Plan, PlanStatus


class LedgerLog:
    """A follower's sink that remembers everything the ledger ever said, past epochs included."""

    def __init__(self) -> None:
        self.decisions: dict[tuple[str, int], list[Decision]] = {}
        self.plans: dict[str, Plan] = {}
        self.epochs: set[str] = set()
        self.story: dict[str, list[str]] = {}
        """What was said of each plan: sequence, epoch, status."""
        self.resets = 0

    def reset(self) -> None:
        """The bucket is another one."""
        self.resets += 1

    def apply(self, entry: Entry) -> None:
        """One message."""
        epoch, _, rest = entry.key.partition(".")
        if entry.deleted or not rest:
            return
        self.epochs.add(epoch)
        if rest.startswith("decision."):
            decision = decode(entry.value, Decision)
            self.decisions.setdefault((decision.uid, decision.attempt), []).append(decision)
        elif rest.startswith("plan."):
            plan = decode(entry.value, Plan)
            self.plans[plan.id] = plan
            self.story.setdefault(plan.id, []).append(f"{entry.sequence} {epoch} {plan.status.value}")

    def end(self, sequence: int) -> None:
        """The end of the bucket."""

    def committed(self) -> dict[tuple[str, int], list[Decision]]:
        """Decisions of plans that count, by uid and attempt."""
        return {
            key: [d for d in found if (plan := self.plans.get(d.plan)) and plan.status is PlanStatus.COMMITTED]
            for key, found in self.decisions.items()
        }

    def solvers(self) -> set[str]:
        """Who committed a plan."""
        return {plan.solver for plan in self.plans.values() if plan.status is PlanStatus.COMMITTED}


@asynccontextmanager
async def following(bus: Bus, sink: LedgerLog) -> AsyncIterator[LedgerLog]:
    """The sink, read up to now and following on."""
    follower = bus.follow(buckets.LEDGER, sink)
    task = asyncio.create_task(follower.run())
    try:
        await asyncio.wait_for(follower.ready.wait(), 10)
        yield sink
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
