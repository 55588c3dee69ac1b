"""The prices of one solver: looked at from time to time, asked for when another mix arrives, refused when absurd."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from berth.contracts.prices import Admission
from berth.placement_solver.core.nodes import CPU
from berth.placement_solver.core.prices.answers import AGREES, Refusal, distance, jump_of, mix_moved, refusal_of
from berth.placement_solver.core.prices.models import Models
from berth.placement_solver.core.prices.problem import Duals, Layout, PriceProblem, price_problem
from berth.placement_solver.core.prices.scarcity import NOWHERE, Scarcity
from berth.placement_solver.core.prices.table import KNOWN_FROM, Prices, mix_of, prices_of
from berth.placement_solver.core.prices.words import admissions
from berth.placement_solver.core.prices.workload import Workload
from berth.placement_solver.core.seams import Floats

if TYPE_CHECKING:
    from berth.placement_solver.core.cost import Costs
    from berth.placement_solver.core.nodes import Nodes
    from berth.placement_solver.core.quotas import Quotas

CONSTANTS: Final = "constants"
DUALS: Final = "duals"
LOOKED_AT_EVERY: Final = 200
"""Arrivals with GPUs from one look to the next."""
ASKED_FROM: Final = 1500
"""Arrivals from which on the mix is known well enough to be priced: duals of a small sample are those of its noise."""
DRIFT: Final = 0.1
"""New duals are asked for when so large a part of the shares has come to be of other sizes, or another mix arrives."""


class Kept(NamedTuple):
    """Prices of an earlier life, or of another solver: what holds until it is known what arrives here. `scarce` is how
    much each model is asked for by those who can go to few others."""

    version: int
    since_ms: int
    prices: Prices
    scarce: dict[str, float]
    duals: tuple[float, ...] = ()
    solved_ms: int = 0
    admissions: tuple[Admission, ...] = ()


class Last(NamedTuple):
    """What became of the last question: `used`, or the name of what was wrong; `asked` while it is out; empty: none."""

    name: str = ""
    message: str = ""
    at_ms: int = 0
    took_ms: int = 0


class _Asked(NamedTuple):
    problem: PriceProblem
    layout: Layout


class PriceKeeping:
    """What arrives, and the prices that follow. `duals` are what the price maker said of shares of 0 to 99 percent.

    `asked_from`: no question before so many arrivals. `version` names the prices that hold, since `since_ms`; 0: none
    but constants. `counts` is how often answers were of each name.
    """

    def __init__(self, nodes: Nodes, costs: Costs, quotas: Quotas, asked_from: int = ASKED_FROM) -> None:
        self.workload = Workload()
        self.asked_from = asked_from
        self.duals: tuple[float, ...] = ()
        self.solved_ms = 0
        self.version = self.since_ms = 0
        self.admissions: tuple[Admission, ...] = ()
        """What more of what is short would let in, by the last answer."""
        self.last = Last()
        self.counts: Counter[str] = Counter()
        self.models = Models(nodes)
        self._nodes, self._costs, self._quotas = nodes, costs, quotas
        self._scarcity = Scarcity(nodes, costs.suitable)
        self._looked_at_every = min(LOOKED_AT_EVERY, asked_from)
        self._known_from = min(KNOWN_FROM, asked_from)
        self._looked_at, self._may_ask = 0, False
        self._kept: Kept | None = None
        self._asked: _Asked | None = None
        self._mix_asked: dict[int, float] | None = None
        self._asked_again_at = self._began = 0
        self._arrived: dict[int, float] = {}
        """The mix for which `duals` were made."""
        self._doubted: tuple[float, ...] = ()

    @property
    def source(self) -> str:
        """Where prices of shares come from: `duals` of the price maker, or `constants`."""
        return DUALS if self.duals else CONSTANTS

    @property
    def basis(self) -> tuple[Prices, Floats]:
        """The prices that hold, and how scarce the GPUs of each row are."""
        return self._costs.basis.prices, self._costs.basis.scarcity

    def look(self, now_ms: int) -> None:
        """Have other prices hold, if what arrives is another thing than it was."""
        if self._kept is not None and len(self._nodes):
            self._take_up(self._kept, now_ms)
            self._kept = None
        if self.workload.arrivals - self._looked_at < self._looked_at_every:
            return
        self._looked_at, self._may_ask = self.workload.arrivals, True
        self._renew(now_ms)

    def take_up(self, kept: Kept) -> None:
        """Have these prices hold from the next look on, unless it is known by then what arrives here."""
        if self.workload.arrivals < self._known_from and not self.duals:
            self._kept = kept

    def question(self, now_ms: int) -> PriceProblem | None:
        """What to ask the price maker; None: the mix is that of the last question, or is not known yet.

        It is known better, and asked about again, when twice as many have come.
        """
        workload = self.workload
        if workload.arrivals < self.asked_from or not self._may_ask:
            return None
        self._may_ask = False
        mix, before = mix_of(workload), self._mix_asked
        is_known = workload.began == self._began and workload.arrivals < self._asked_again_at
        if before is not None and is_known and mix_moved(mix, before) < DRIFT:
            return None
        found = price_problem(workload, self.models, self._costs.suitable, self._quotas, mix)
        if found is None:
            return None
        self._mix_asked, self._began = mix, workload.began
        self._asked_again_at = 2 * workload.arrivals - workload.began
        self._asked = _Asked(*found)
        self.last = Last("asked", "", now_ms)
        return found[0]

    def unanswered(self, name: str, message: str, now_ms: int) -> None:
        """There is no answer, for the reason that has this name: the same is asked again, and the prices stay."""
        self._refuse(Refusal(name, message), now_ms)

    def answered(self, duals: Duals, now_ms: int) -> Refusal | None:
        """Take what the price maker says, unless it is absurd; what is wrong with it then."""
        if self._asked is None:
            raise RuntimeError("nothing was asked")
        problem, layout = self._asked
        refusal = refusal_of(duals, layout)
        if refusal is None:
            # A larger share denies at least what a smaller one does; of sizes that did not come nothing is said.
            shares = tuple(accumulate(duals.shares, max))
            refusal = self._jump(shares, layout)
        if refusal is not None:
            self._refuse(refusal, now_ms)
            return refusal
        self._doubted, self.solved_ms = (), now_ms
        if layout.arriving:
            self.duals, self._arrived = shares, layout.arriving
        self.admissions = admissions(problem, layout, duals)
        self._settle("used", "", now_ms)
        self._renew(now_ms, is_new=True)
        return None

    def _jump(self, shares: tuple[float, ...], layout: Layout) -> Refusal | None:
        """One that says something quite different has to be said twice."""
        if not self.duals:
            return None
        if self._doubted and distance(shares, self._doubted, layout.arriving) <= AGREES:
            return None
        found = jump_of(shares, self.duals, layout.arriving, self._arrived or layout.arriving)
        self._doubted = shares if found is not None else ()
        return found

    def _refuse(self, refusal: Refusal, now_ms: int) -> None:
        self._mix_asked = None
        self._settle(*refusal, now_ms)

    def _settle(self, name: str, message: str, now_ms: int) -> None:
        self._asked = None
        self.counts[name] += 1
        self.last = Last(name, message, now_ms, max(0, now_ms - self.last.at_ms))

    def _take_up(self, kept: Kept, now_ms: int) -> None:
        self.duals, self.solved_ms, self.admissions = kept.duals, kept.solved_ms, kept.admissions
        scarcity = NOWHERE
        if kept.scarce:
            scarcity = np.zeros(len(self._nodes))
            for model, rows in self.models.rows().items():
                scarcity[rows] = kept.scarce.get(model, 0.0)
        self._costs.use(kept.prices, scarcity)
        if kept.version:
            self.version, self.since_ms = kept.version, kept.since_ms
        else:
            self._hold_since(now_ms)

    def _renew(self, now_ms: int, *, is_new: bool = False) -> None:
        """`is_new`: the price maker has said something, even if it is what was known."""
        prices, scarcity = self.basis
        if self.workload.arrivals >= self._known_from:
            prices = prices_of(
                self.workload,
                prices,
                self.duals,
                known_from=self._known_from,
                largest=self._nodes.most_gpus,
                cores=_cores_for_each_gpu(self._nodes),
            )
        if self.workload.arrivals >= self._known_from or not scarcity.size:
            scarcity = self._scarcity.of(self.workload, scarcity)
        if prices != self.basis[0] or scarcity is not self.basis[1]:
            self._costs.use(prices, scarcity)
            is_new = True
        if is_new:
            self._hold_since(now_ms)

    def _hold_since(self, now_ms: int) -> None:
        """Other prices hold, under a version that no others have had."""
        self.version = max(self.version + 1, now_ms)
        self.since_ms = now_ms


def _cores_for_each_gpu(nodes: Nodes) -> float:
    """Of all nodes that are there, those without GPUs included; 0: there are none."""
    there = nodes.alive[: len(nodes)]
    gpus = int((nodes.gpu_count[: len(nodes)] * there).sum())
    return float((nodes.allocatable[CPU, : len(nodes)] * there).sum()) / 1000.0 / gpus if gpus else 0.0
