"""The prices of one solver: looked at from time to time, asked for when another mix arrives, refused when absurd."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Final

from berth.contracts.base import Problem
from berth.placement_solver.core.prices.problem import PriceProblem, price_problem
from berth.placement_solver.core.prices.scarcity import scarcity_of
from berth.placement_solver.core.prices.table import WHOLE, mix_of, prices_of
from berth.placement_solver.core.prices.workload import Workload

if TYPE_CHECKING:
    from berth.placement_solver.core.cost import Costs
    from berth.placement_solver.core.nodes import Nodes

LOOKED_AT_EVERY: Final = 200
"""Arrivals with GPUs from one look to the next."""
ASKED_FROM: Final = 1500
"""Arrivals from which on the mix is known well enough to be priced: duals of a small sample are those of its noise."""
DRIFT: Final = 0.1
"""New duals are asked for when so large a part of the shares has come to be of other sizes."""
SLACK: Final = 1e-6


class PriceKeeping:
    """What arrives, and the prices that follow. `duals` are what the price maker said of shares of 0 to 100 percent."""

    def __init__(self, nodes: Nodes, costs: Costs) -> None:
        self.workload = Workload()
        self.duals: tuple[float, ...] = ()
        self.problem: Problem | None = None
        """Why the last answer of the price maker was refused."""
        self._nodes = nodes
        self._costs = costs
        self._looked_at, self._may_ask = 0, False
        self._asked_for: dict[int, float] | None = None
        self._asked_again_at = 0

    def look(self) -> None:
        """Have other prices hold, if what arrives is another thing than it was."""
        if self.workload.arrivals - self._looked_at < LOOKED_AT_EVERY:
            return
        self._looked_at, self._may_ask = self.workload.arrivals, True
        self._renew()

    def question(self) -> PriceProblem | None:
        """What to ask the price maker; None: the mix is that of the last question, or is not known yet.

        It is known better, and asked about again, when twice as many have come.
        """
        if self.workload.arrivals < ASKED_FROM or not self._may_ask:
            return None
        self._may_ask = False
        mix, before = mix_of(self.workload), self._asked_for
        if not mix:
            return None
        if before is not None:
            moved = sum(abs(mix.get(size, 0.0) - before.get(size, 0.0)) for size in mix.keys() | before.keys()) / 2
            if moved < DRIFT and self.workload.arrivals < self._asked_again_at:
                return None
        self._asked_for = mix
        self._asked_again_at = 2 * self.workload.arrivals
        return price_problem(self.workload, self._nodes, self._costs.suitable)

    def unanswered(self) -> None:
        """There was no answer in time: the same is asked again later, and the prices at hand stay."""
        self._asked_for = None

    def answered(self, shares: Sequence[float]) -> None:
        """Take what the price maker says, unless it is absurd."""
        self.problem = problem_of(shares)
        if self.problem is None:
            # A larger share denies at least what a smaller one does; of sizes that did not come nothing is said.
            self.duals = tuple(accumulate(shares, max))
            self._renew()

    def _renew(self) -> None:
        basis = self._costs.basis
        prices = prices_of(self.workload, basis.prices, self.duals)
        scarcity = scarcity_of(self.workload, self._nodes, self._costs.suitable, basis.scarcity)
        if prices != basis.prices or scarcity is not basis.scarcity:
            self._costs.use(prices, scarcity)


def problem_of(shares: Sequence[float]) -> Problem | None:
    """What is wrong with an answer: one number from 0 to 1 for each percent, not all of them 0."""
    if len(shares) != WHOLE:
        return Problem(field="shares", message=f"{len(shares)} numbers instead of {WHOLE}")
    for size, price in enumerate(shares):
        if not isfinite(price) or not -SLACK <= price <= 1.0 + SLACK:
            return Problem(field=f"shares[{size}]", message=f"{price} is no part of a card")
    if max(shares) <= 0.0:
        return Problem(field="shares", message="nothing is worth anything")
    return None
