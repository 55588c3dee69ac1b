"""Prices for what arrives are asked for beside the rounds; an answer that is late, lost or absurd changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from berth.placement_solver import metrics
from berth.placement_solver.core.prices.keeping import PriceKeeping
from berth.placement_solver.optimiser import Answer, JointSolver
from berth.telemetry import get_logger

log = get_logger(__name__)

MESSAGES: Final = {
    "late": "the price maker took too long, and was ended",
    "failed": "the price maker has ended, or found no prices",
    "not ready": "the price maker is being started",
}


class Pricing:
    """The question that is with the price maker. `on_answer` is called when it is over, with or without an answer."""

    def __init__(
        self,
        prices: PriceKeeping,
        optimiser: JointSolver,
        on_answer: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._prices = prices
        self._optimiser = optimiser
        self._on_answer = on_answer
        self._now_ms = now_ms
        self._task: asyncio.Task[Answer | None] | None = None

    @property
    def is_busy(self) -> bool:
        """A question is out, or its answer has not been taken yet."""
        return self._task is not None

    @property
    def is_answered(self) -> bool:
        """`take` has something."""
        return self._task is not None and self._task.done()

    def look(self) -> None:
        """Ask, if another mix arrives than the prices were made for."""
        question = self._prices.question(self._now_ms())
        if question is not None:
            self._task = asyncio.create_task(self._optimiser.solve(question), name="price")
            self._task.add_done_callback(lambda _: self._on_answer())

    def take(self) -> None:
        """Have the answer hold.

        Raises what the optimiser raised.
        """
        if self._task is None:
            raise RuntimeError("nothing was asked")
        task, self._task = self._task, None
        answer = task.result()
        if answer is None or answer.duals is None:
            name = self._optimiser.trouble or "failed"
            metrics.PRICES.labels(name).inc()
            self._prices.unanswered(name, MESSAGES[name], self._now_ms())
            return
        refusal = self._prices.answered(answer.duals, self._now_ms())
        metrics.PRICES.labels("used" if refusal is None else refusal.name).inc()
        if refusal is not None:
            log.warning("prices that make no sense are refused", name=refusal.name, problem=refusal.message)

    async def stop(self) -> None:
        """Ask no more, and wait for no answer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
