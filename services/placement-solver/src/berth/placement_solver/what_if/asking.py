"""A question what would happen, answered in a copy of the process: the view that is planned on is not touched."""

from __future__ import annotations

import asyncio
import random as randomness
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from msgspec.structs import replace

from berth.bus.port import Clock
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.what_if import WhatIfAnswer, WhatIfQuestion
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.readiness import Readiness
from berth.placement_solver.what_if.changing import Supposed
from berth.placement_solver.what_if.checking import problems_of
from berth.placement_solver.what_if.running import Limits, Running, running_view
from berth.placement_solver.what_if.telling import told
from berth.runtime.snapshot import SnapshotFailed, in_snapshot

GRACE_S: Final = 3.0
"""Beyond the time of a question: one round is never cut in two."""
WAIT_S: Final = 10.0
"""Questions are answered one after the other; who waits for so long is told so."""

Copies: TypeAlias = Callable[[Callable[[], bytes], float], Awaitable[bytes]]


class WhatIf:
    """Answers questions about one view, one at a time; `copies` does work in a copy of the process."""

    def __init__(
        self,
        cluster: ClusterView,
        verifier: Verifier,
        readiness: Readiness,
        clock: Clock,
        random: randomness.Random,
        limits: Limits,
        copies: Copies = in_snapshot,
    ) -> None:
        self._cluster = cluster
        self._verifier = verifier
        self._readiness = readiness
        self._clock = clock
        self._random = random
        self._limits = limits
        self._copies = copies
        self._turn = asyncio.Lock()

    async def answer(self, question: WhatIfQuestion) -> WhatIfAnswer:
        """What would happen by what is known now."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._turn.acquire()
        except TimeoutError:
            return self._failed("other questions are being answered: ask again in a moment")
        try:
            answer = await self._answered(question)
        finally:
            self._turn.release()
        metrics.WHAT_IF.labels(answer.outcome).inc()
        return answer

    async def _answered(self, question: WhatIfQuestion) -> WhatIfAnswer:
        cluster = self._cluster
        if not self._readiness.may_plan():
            return WhatIfAnswer(outcome="unready", message="the views are not complete", solver=cluster.me)
        if problems := problems_of(cluster, question):
            return WhatIfAnswer(outcome="refused", problems=problems, solver=cluster.me)
        now_s, began = self._clock.now(), time.monotonic()
        ends = began + question.time_limit_s

        def work() -> bytes:
            return fitting(
                supposing(
                    cluster,
                    self._verifier,
                    question,
                    random=self._random,
                    limits=self._limits,
                    now_s=now_s,
                    is_over=lambda: time.monotonic() > ends,
                )
            )

        try:
            found = decode(await self._copies(work, question.time_limit_s + GRACE_S), WhatIfAnswer)
        except (SnapshotFailed, OSError) as error:
            return self._failed(f"the copy of the solver failed: {error}")
        took_ms = round((time.monotonic() - began) * 1000)
        metrics.WHAT_IF_SECONDS.observe(took_ms / 1000)
        return replace(found, took_ms=took_ms)

    def _failed(self, message: str) -> WhatIfAnswer:
        return WhatIfAnswer(outcome="failed", message=message, solver=self._cluster.me)


def fitting(answer: WhatIfAnswer) -> bytes:
    """The answer as a message; what there is no place for is counted."""
    while True:
        try:
            return encode(answer)
        except InvalidMessage:
            kept = len(answer.pods) // 2
            if not kept:
                raise
            left_out = answer.left_out + len(answer.pods) - kept
            answer = replace(answer, pods=answer.pods[:kept], left_out=left_out)


def supposing(
    cluster: ClusterView,
    verifier: Verifier,
    question: WhatIfQuestion,
    *,
    random: randomness.Random,
    limits: Limits,
    now_s: float,
    is_over: Callable[[], bool],
) -> WhatIfAnswer:
    """What would happen, played through on this view itself: it must be one that nobody plans on. The question has no
    problems."""
    ledger, complete = cluster.book.ledger, cluster.book.complete
    at = {
        "epoch": ledger.epoch.epoch,
        "ledger": ledger.sequence,
        "pods": complete["pods"].version,
        "reservations": complete["reservations"].version,
        "now_ms": round(now_s * 1000),
    }
    running_view(cluster)
    waited = sorted(name for name in cluster.queue.waiting if name[0])
    supposed = Supposed(cluster)
    asked = supposed.change(question)
    ended = Running(supposed, verifier, random, limits, now_s).until_rest(is_over)
    return replace(told(cluster, asked, supposed.moved, waited, ended), at=at)
