"""Rounds of placement-solver without a bus: a ledger in memory, a clock that tests move, and what was reported."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from berth.bus.port import Committed, Refused, Stored, Unknown, Write
from berth.contracts.codec import decode
from berth.contracts.command import RefusePod
from berth.placement_solver.rounds import Rounds


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


class MemoryLedger:
    """The server's side; `lose` answers: the batch is stored, the answer never comes."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.before_commit: list[Any] = []
        self.lose = 0
        self.drop = 0

    async def commit(self, writes: Sequence[Write], *, traceparent: str | None = None) -> Any:
        while self.before_commit:
            self.before_commit.pop(0)()
        if self.drop:
            self.drop -= 1
            return Unknown("no answer, and nothing stored")
        accepted = self.run.ledger.commit(writes)
        self.run.deliver()
        if self.lose:
            self.lose -= 1
            return Unknown("no answer")
        return Committed(self.run.ledger.sequence) if accepted else Refused(10071, "wrong last sequence")

    async def read(self, key: str) -> Stored | None:
        for each, value, deleted, sequence in reversed(self.run.ledger.messages):
            if each == key:
                return Stored(sequence, value, deleted)
        return None


class Told:
    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes]] = []

    async def publish(self, subject: str, payload: bytes, **_: Any) -> None:
        self.messages.append((subject, payload))

    def offer(self, subject: str, payload: bytes, **_: Any) -> bool:
        self.messages.append((subject, payload))
        return True

    async def drain(self) -> None:
        pass

    def refusals(self) -> dict[str, str]:
        return {
            command.name: command.message
            for subject, payload in self.messages
            if ".cmd.refuse." in subject
            for command in [decode(payload, RefusePod)]
        }


class SolverBench:
    """`Rounds` over a view, without a bus."""

    def __init__(self, run: Any, **settings: Any) -> None:
        self.run = run
        self.clock = Clock()
        self.ledger = MemoryLedger(run)
        self.events, self.commands = Told(), Told()
        self.rounds = Rounds(
            run.cluster,
            run.verifier,
            self.ledger,
            self.events,
            self.commands,
            self.clock,
            random.Random(7),
            batch_pods_max=100,
            report_after_s=0.0,
            **settings,
        )

    def placed(self) -> dict[str, str]:
        return {name[1]: held.decision.node for name, held in self.run.cluster.book.ledger.decisions.items()}

    async def thought(self) -> None:
        """The round that asks the optimiser, and the one that decides what it was asked about."""
        await self.rounds.round()
        await asyncio.sleep(0)
        await self.rounds.round()

    async def until_idle(self, limit: int = 20) -> None:
        """Rounds, as the shell makes them, until there is nothing to plan; what the optimiser thinks about included."""
        for _ in range(limit):
            if not await self.rounds.round():
                await asyncio.sleep(0)  # a task of the round's may have ended
                if not self.rounds.has_work() or not self.rounds.readiness.may_plan():
                    while await self.rounds.explain():
                        pass
                    if not self.rounds.has_work():
                        return
