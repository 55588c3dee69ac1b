"""What it costs to put one pod of a class on a node that takes it (docs/decisions/0007-node-cost.md).

Twice: for many rows as arrays and for one row as plain numbers. After each placement one row has changed, for which
plain numbers are many times faster than arrays of one element. Both say the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Final, NamedTuple

import numpy as np

from berth.contracts import names
from berth.placement_solver.core.devices import GPU, Want
from berth.placement_solver.core.nodes import CPU, Nodes
from berth.placement_solver.core.policy import Policy, Weights
from berth.placement_solver.core.prices.stranding import Stranding
from berth.placement_solver.core.prices.table import WHOLE, Prices, worth_by_free
from berth.placement_solver.core.seams import Floats, Mask, Rows

_CORE: Final = GPU.columns.index(names.GPU_CORE)
_RATIO: Final = GPU.columns.index(names.GPU_MEMORY_RATIO)


class Basis(NamedTuple):
    """What prices are worked out by, besides the nodes. `scarcity` says of each row how much those ask for its GPUs who
    can go to few others; rows that are not in it have none."""

    prices: Prices
    scarcity: Floats


class Price:
    """The price of one pod that makes these requests, over `nodes`."""

    def __init__(
        self, nodes: Nodes, policy: Policy, basis: Basis, requests: Mapping[str, int], want: Want | None
    ) -> None:
        self.basis = basis
        self.share = 0
        """Percent of a card, of who asks for a share of one."""
        self._weights = weights = policy.weights(basis.prices.turning_over)
        self._nodes = nodes
        self._policy = policy
        self._want = want
        self._asked = (requests.get(names.CPU, 0), requests.get(names.MEMORY, 0))
        self._cores = self._asked[CPU] / 1000.0
        self.gpus = 0.0
        """So many cards, parts of one included."""
        self._scarce = 0.0
        self._by_card: Floats | None = None
        self._by_card_listed: list[float] = []
        """What a share of one card costs by how much of the card is free, in percent; None for who takes no share."""
        self._shorts = [(float(cores), weight / cores) for cores, weight in weights.cores_short if weight]
        self._stranding: Stranding | None = None
        if want is not None:
            each = max(want.amounts[_CORE], want.amounts[_RATIO])
            self.gpus = want.instances * each / 100.0
            self._scarce = policy.scarce * self.gpus if basis.scarcity.size else 0.0
            if want.shared and want.instances == 1 and 0 < each <= WHOLE:
                self.share = each
                self._by_card = _share_prices(weights, basis.prices, each)
                self._by_card_listed = self._by_card.tolist()
            if weights.stranded and basis.prices.typical:
                self._stranding = Stranding(basis.prices.typical, self._asked[CPU], want.instances, each)

    def says_what(self, other: Price) -> bool:
        """Whether the price of the same pod by another basis is the same everywhere."""
        mine, its = self.basis, other.basis
        return (
            self._weights == other._weights
            and self._by_card_listed == other._by_card_listed
            and (self._stranding is None) == (other._stranding is None)
            and (self._stranding is None or mine.prices.typical == its.prices.typical)
            and self._scarce == other._scarce
            and (not self._scarce or np.array_equal(mine.scarcity, its.scarcity))
        )

    # --- many rows ---------------------------------------------------------------------------------------------------

    def of(self, rows: Rows, taking: Mask | None = None) -> Floats:
        """The price on these rows. Of rows that are not `taking` the pod any number may be said."""
        nodes = self._nodes
        if not nodes.most_gpus:
            return self._plain(rows)
        has_none = nodes.gpu_count[rows] == 0
        without = has_none if taking is None else has_none & taking
        if not without.any():
            return self._with_gpus(rows)
        result = self._with_gpus(rows)
        np.copyto(result, self._plain(rows), where=has_none)
        return result

    def _plain(self, rows: Rows) -> Floats:
        """Nodes without GPUs: how full cpu and memory are afterwards, 0 to 100."""
        nodes = self._nodes
        filled = np.zeros(nodes.alive[rows].shape)
        for column, asked in enumerate(self._asked):
            whole = np.maximum(nodes.allocatable[column, rows], 1)
            used = whole - nodes.free[column, rows]
            used += asked
            filled += used / whole
        filled *= 50.0
        if self._policy.cpu_strategy != "LeastAllocated":
            np.subtract(100.0, filled, out=filled)
        filled -= self._policy.plain_node_bonus
        return filled

    def _with_gpus(self, rows: Rows) -> Floats:
        weights, nodes = self._weights, self._nodes
        step, fleet = weights.step, nodes.fleet
        free = nodes.free[CPU, rows]
        gpus, cores = np.empty((2, *free.shape)), np.empty((2, *free.shape))
        np.divide(free, 1000.0, out=cores[1])
        np.subtract(cores[1], self._cores, out=cores[0])
        np.divide(fleet.percent_sum[rows], 100.0, out=gpus[1])
        np.subtract(gpus[1], self.gpus, out=gpus[0])
        cost = self._short_of_cores(gpus, cores)
        gpus_after, cores_after = gpus[0], cores[0]
        if self._by_card is not None and self._want is not None:
            # One that does not serve counts as a whole one.
            card = np.where(fleet.candidates(self._want, rows), fleet.percent[:, rows], np.int16(WHOLE)).min(axis=0)
            cost += self._by_card[card]
        cost += weights.gpus_left * gpus_after / 8.0 + weights.cores_left * cores_after / 128.0
        if self.gpus < 8:
            count = nodes.gpu_count[rows]
            cost[(count >= 8) & (gpus[1] >= count)] += weights.node_broken
        if self._stranding is not None:
            cost += self._stranding.more(free, fleet.percent[:, rows]) * weights.stranded
        if self._scarce:
            cost += self._scarcity_of(rows) * self._scarce
        cost /= step
        np.floor(cost, out=cost)
        cost *= step
        cores_after *= weights.tie_cores
        cores_after /= 128.0
        gpus_after *= weights.tie_gpus
        gpus_after /= 8.0
        cores_after += gpus_after
        cores_after *= step * 1e-3
        cost += cores_after
        return cost

    def _scarcity_of(self, rows: Rows) -> Floats:
        known = self.basis.scarcity
        if known.size < len(self._nodes):
            known = np.concatenate([known, np.zeros(len(self._nodes) - known.size)])
        found: Floats = known[rows]
        return found

    def _short_of_cores(self, gpus: Floats, cores: Floats) -> Floats:
        """The price of idle GPUs that are left with too few cores, less that of those that were so before.

        Both arguments have two rows, after and before.
        """
        result = np.zeros(gpus.shape[1])
        short = np.empty(gpus.shape)
        for per_gpu, weight in self._shorts:
            np.multiply(gpus, per_gpu, out=short)
            short -= cores
            np.maximum(short, 0.0, out=short)
            more = short[0]
            more -= short[1]
            more *= weight
            result += more
        return result

    # --- one row -----------------------------------------------------------------------------------------------------

    def of_one(self, row: int) -> float:
        """The price on one row that takes the pod."""
        return self._with_gpus_one(row) if self._nodes.gpu_count[row] else self._plain_one(row)

    def _plain_one(self, row: int) -> float:
        nodes = self._nodes
        offered = nodes.allocatable[:2, row].tolist()
        free = nodes.free[:2, row].tolist()
        filled = 0.0
        for column, asked in enumerate(self._asked):
            whole = max(offered[column], 1)
            filled += (whole - free[column] + asked) / whole
        filled *= 50.0
        if self._policy.cpu_strategy != "LeastAllocated":
            filled = 100.0 - filled
        return float(filled - self._policy.plain_node_bonus)

    def _with_gpus_one(self, row: int) -> float:
        weights, nodes = self._weights, self._nodes
        step, cards = weights.step, nodes.cards(row)
        free = nodes.free[CPU, row].item()
        cores = free / 1000.0
        gpus = cards.percent / 100.0
        gpus_after, cores_after = gpus - self.gpus, cores - self._cores
        cost = 0.0
        for per_gpu, weight in self._shorts:
            short, before = gpus_after * per_gpu - cores_after, gpus * per_gpu - cores
            cost += ((short if short > 0.0 else 0.0) - (before if before > 0.0 else 0.0)) * weight
        if self._by_card is not None and self._want is not None:
            cost += self._by_card_listed[min(cards.serving(self._want).least, WHOLE)]
        cost += weights.gpus_left * gpus_after / 8.0 + weights.cores_left * cores_after / 128.0
        if self.gpus < 8:
            count = nodes.gpu_count[row].item()
            if count >= 8 and gpus >= count:
                cost += weights.node_broken
        if self._stranding is not None:
            cost += self._stranding.more_on_one(free, cards.by_percent) * weights.stranded
        if self._scarce and row < self.basis.scarcity.size:
            cost += self.basis.scarcity[row].item() * self._scarce
        stepped = floor(cost / step) * step
        tie = cores_after * weights.tie_cores / 128.0 + gpus_after * weights.tie_gpus / 8.0
        return float(stepped + tie * (step * 1e-3))


def _share_prices(weights: Weights, prices: Prices, each: int) -> Floats:
    """What a share of `each` percent denies to others of a card that has 0 to 100 percent free."""
    card = np.arange(WHOLE + 1)
    worth = worth_by_free(prices)
    denied = worth[card] - worth[np.maximum(card - each, 0)] - each / 100.0
    result: Floats = weights.share_denied * denied + weights.card_broken * (card == WHOLE)
    return result
