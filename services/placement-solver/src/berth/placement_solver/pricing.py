"""Prices for what arrives are asked for beside the rounds; an answer that is late, lost or absurd changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.placement_solver import metrics
from berth.placement_solver.asking import Question
from berth.placement_solver.core.prices.keeping import PriceKeeping
from berth.placement_solver.optimiser import JointSolver
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
        self._now_ms = now_ms
        self.question: Question[None] = Question(optimiser, "price", on_answer)

    def look(self) -> None:
        """Ask, if another mix arrives than the prices were made for."""
        problem = self._prices.question(self._now_ms())
        if problem is not None:
            self.question.ask(problem, None)

    def take(self) -> None:
        """Have the answer hold.

        Raises what the optimiser raised.
        """
        _, answer, trouble = self.question.take()
        if answer is None or answer.duals is None:
            name = trouble or "failed"
            metrics.PRICES.labels(name).inc()
            self._prices.unanswered(name, MESSAGES[name], self._now_ms())
            return
        refusal = self._prices.answered(answer.duals, self._now_ms())
        metrics.PRICES.labels("used" if refusal is None else refusal.name).inc()
        if refusal is not None:
            log.warning("prices that make no sense are refused", name=refusal.name, problem=refusal.message)
