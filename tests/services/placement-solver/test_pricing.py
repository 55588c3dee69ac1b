"""Prices are asked for beside the rounds, of the real child too; without an answer those at hand stay."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.placement_solver.core.prices.keeping import ASKED_FROM
from berth.placement_solver.core.prices.problem import Duals
from berth.placement_solver.optimiser import Answer, Optimiser
from berth.placement_solver.pricing import Pricing
from berth.testing.builders import gpu_slots, pod


class Told:
    """A `JointSolver` that says what it is told."""

    def __init__(self, answer: Answer | None, trouble: str = "") -> None:
        self.answer = answer
        self.trouble = trouble
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
    run.cluster.prices.look(1)
    return run


async def answered(pricing: Pricing) -> None:
    async with asyncio.timeout(60):
        while not pricing.question.is_answered:
            await asyncio.sleep(0.01)
    pricing.take()


async def test_the_child_says_what_shares_are_worth(run: Any) -> None:
    optimiser = Optimiser()
    pricing = Pricing(run.cluster.prices, optimiser, lambda: None, lambda: 7)
    try:
        optimiser.warm_up()
        async with asyncio.timeout(60):
            while not optimiser.is_ready:
                await asyncio.sleep(0.01)
        pricing.look()
        await answered(pricing)
    finally:
        await pricing.question.stop()
        await optimiser.stop()
    shares = dict(run.cluster.solver.costs.basis.prices.shares)
    assert shares == {33: pytest.approx(1 / 3, abs=1e-4), 80: pytest.approx(1.0, abs=1e-4)}


@pytest.mark.parametrize(
    ("answer", "trouble", "name"),
    [
        (None, "late", "late"),
        (None, "not ready", "not ready"),
        (None, "", "failed"),
        (Answer(None), "", "failed"),
        (Answer(None, duals=Duals([float("nan")] * 100, [0.0], [0.0], [], [0.0] * 2)), "", "nan"),
    ],
)
async def test_without_a_usable_answer_the_prices_at_hand_stay(
    run: Any, answer: Answer | None, trouble: str, name: str
) -> None:
    before, solver = run.cluster.solver.costs.basis, Told(answer, trouble)
    version = run.cluster.prices.version
    pricing = Pricing(run.cluster.prices, solver, lambda: None, lambda: 7)
    pricing.look()
    assert pricing.question.is_busy
    assert run.cluster.prices.last.name == "asked"
    await answered(pricing)
    assert not pricing.question.is_busy
    assert len(solver.asked) == 1
    assert run.cluster.solver.costs.basis is before
    assert run.cluster.prices.version == version
    assert run.cluster.prices.last.name == name
    assert run.cluster.prices.last.message


async def test_a_decision_names_the_prices_that_it_was_made_by(run: Any) -> None:
    bench = SolverBench(run)
    run.cluster.prices.look(5)
    run.pod(pod("c").share(33).requests(cpu=100))
    await bench.rounds.round()
    decision = run.cluster.book.open_decision(("default", "c"))
    assert run.cluster.prices.version > 0
    assert decision.prices == run.cluster.prices.version
