"""Where the time of each pod of Berth goes, from the stamps that its messages carry; nothing is added to the services.

A reader of the bus sees when the server stored each pod and each decision, and in a decision when the solver read the
pod and when it had the plan. A watch of the Lease, asked by the client like that of the binds, shows when it named the
plan. All processes share one clock.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

from client import Client
from figures import latencies

from berth.bus import Bus
from berth.bus.port import Entry
from berth.bus.settings import BusSettings
from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Decision
from berth.contracts.names import ANNOTATION_PLAN

STEPS = ("sent", "answered", "stored", "read", "planned", "committed", "recorded", "bound")
"""Creation sent, and answered; the pod in STATE, and read by its solver; planned; the decision in LEDGER; the plan in
the Lease; the bind seen."""
LEASES = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases?watch=1"


class Spans:
    """Moments by pod, on the monotonic clock."""

    def __init__(self) -> None:
        self.moments: dict[str, dict[str, float]] = {}
        self._behind_s = time.time() - time.monotonic()
        self._waiting: dict[str, tuple[int, str]] = {}
        self._sequences: dict[str, int] = {}

    def note(self, name: str, step: str, at: float) -> None:
        """The first time counts."""
        self.moments.setdefault(name, {}).setdefault(step, at)

    def state(self, entry: Entry) -> None:
        """A message of STATE."""
        self.note(entry.key.rpartition(".")[2], "stored", entry.stored_s - self._behind_s)

    def ledger(self, entry: Entry) -> None:
        """A message of LEDGER."""
        if ".decision." not in entry.key or entry.deleted:
            return
        try:
            decision = decode(entry.value, Decision)
        except InvalidMessage:
            return
        self.note(decision.name, "read", decision.seen_ms / 1000 - self._behind_s)
        self.note(decision.name, "planned", decision.decided_ms / 1000 - self._behind_s)
        self.note(decision.name, "committed", entry.stored_s - self._behind_s)
        self._waiting[decision.name] = (entry.sequence, decision.plan)
        self._sequences[decision.plan] = entry.sequence

    def lease(self, plan: str, at: float) -> None:
        """The Lease names a plan: it, and all before it, are begun."""
        through = self._sequences.get(plan, 0)
        for name in [name for name, (sequence, own) in self._waiting.items() if sequence <= through or own == plan]:
            self.note(name, "recorded", at)
            del self._waiting[name]

    def table(self) -> dict[str, list[float]]:
        """p50 and p99 in ms of each step after the one before it, and of all; of pods of which every step was seen."""
        whole = [each for each in self.moments.values() if all(step in each for step in STEPS)]
        found: dict[str, list[float]] = {}
        for before, after in [*pairwise(STEPS), (STEPS[0], STEPS[-1])]:
            p50, p99 = latencies([each[after] - each[before] for each in whole])
            if p50 is not None and p99 is not None:
                found[f"{before} -> {after}"] = [p50, p99]
        return found


class _Sink:
    def __init__(self, apply: Callable[[Entry], None]) -> None:
        self.apply = apply

    def reset(self) -> None:
        pass

    def end(self, sequence: int) -> None:
        pass


@asynccontextmanager
async def watched(nats_url: str, client: Client) -> AsyncIterator[Spans]:
    """Spans of what happens inside."""
    spans = Spans()
    bus = await Bus.connect(BusSettings(url=nats_url), service="race")
    followers = [bus.follow(buckets.STATE, _Sink(spans.state), keys="pod.race.>")]
    followers.append(bus.follow(buckets.LEDGER, _Sink(spans.ledger)))
    tasks = [asyncio.create_task(follower.run()) for follower in followers]
    tasks.append(asyncio.create_task(_leases(client, spans)))
    try:
        for follower in followers:
            await follower.ready.wait()
        yield spans
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await bus.close()
    for step, times in (("sent", client.sent), ("answered", client.answered), ("bound", client.bound)):
        for name, at in times.items():
            spans.note(name, step, at)


async def _leases(client: Client, spans: Spans) -> None:
    async for line, at in client.lines(LEASES):
        metadata = json.loads(line)["object"]["metadata"]
        if metadata.get("name") == "cluster-writer":
            spans.lease((metadata.get("annotations") or {}).get(ANNOTATION_PLAN, ""), at)
