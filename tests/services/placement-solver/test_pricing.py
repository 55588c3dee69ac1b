"""Prices are asked for beside the rounds, of the real child too; without an answer those at hand stay."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from berth.placement_solver.core.prices.keeping import ASKED_FROM
from berth.placement_solver.optimiser import Answer, Optimiser
from berth.placement_solver.pricing import Pricing
from berth.testing.builders import gpu_slots, pod


class Told:
    """A `JointSolver` that says what it is told."""

    def __init__(self, answer: Answer | None) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def warm_up(self) -> None:
        """Always warm."""

    async def solve(self, problem: Any) -> Answer | None:
        self.asked.append(problem)
        return self.answer

    async def stop(self) -> None:
        """Nothing is held."""


@pytest.fixture
def run(solving: Any) -> Any:
    """A node with GPUs, and a solver that has seen shares of a third and of most of a card."""
    run = solving()
    run.node("n0", cpu=64_000)
    run.devices("n0", gpu_slots(4))
    run.pods([pod("a").share(33).requests(cpu=100), pod("b").share(80).requests(cpu=100)])
    units, _ = run.cluster.batch(2)
    for unit in units:
        cls = unit.candidates[0].cls
        run.cluster.solver.costs.of(cls)
        for _ in range(ASKED_FROM):
            run.cluster.prices.workload.came(cls)
    run.cluster.prices.look()
    return run


async def answered(pricing: Pricing) -> None:
    async with asyncio.timeout(60):
        while not pricing.is_answered:
            await asyncio.sleep(0.01)
    pricing.take()


async def test_the_child_says_what_shares_are_worth(run: Any) -> None:
    optimiser = Optimiser()
    pricing = Pricing(run.cluster.prices, optimiser, lambda: None)
    try:
        optimiser.warm_up()
        async with asyncio.timeout(60):
            while not optimiser.is_ready:
                await asyncio.sleep(0.01)
        pricing.look()
        await answered(pricing)
    finally:
        await pricing.stop()
        await optimiser.stop()
    shares = dict(run.cluster.solver.costs.basis.prices.shares)
    assert shares == {33: pytest.approx(1 / 3, abs=1e-4), 80: pytest.approx(1.0, abs=1e-4)}


@pytest.mark.parametrize("answer", [None, Answer(None, shares=[float("nan")] * 100)])
async def test_without_a_usable_answer_the_prices_at_hand_stay(run: Any, answer: Answer | None) -> None:
    before, solver = run.cluster.solver.costs.basis, Told(answer)
    pricing = Pricing(run.cluster.prices, solver, lambda: None)
    pricing.look()
    assert pricing.is_busy
    await answered(pricing)
    assert not pricing.is_busy
    assert len(solver.asked) == 1
    assert run.cluster.solver.costs.basis is before
    assert (run.cluster.prices.problem is not None) == (answer is not None)
