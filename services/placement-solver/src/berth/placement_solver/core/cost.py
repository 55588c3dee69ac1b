"""The cost of a class on every node, kept up to date row by row. Infinite where the class does not fit.

A class keeps its row of costs; when it is used again only the nodes touched since then are worked out anew. The
result is the same as working out all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.lowest import Lowest
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.policy import Policy, policy_of
from berth.placement_solver.core.price import Basis, Price
from berth.placement_solver.core.prices.scarcity import NOWHERE
from berth.placement_solver.core.prices.table import UNKNOWN, Prices
from berth.placement_solver.core.seams import Floats, Mask, Rows

FEW: Final = 32
"""Rows worked out one by one instead of as arrays."""
DENSE: Final = 3
"""Of one row in so many that takes a class, the price is worked out for all rows, instead of for those picked out."""
NONE: Final[Mask] = np.zeros(0, np.bool_)


class _Idle:
    """The largest GPU nodes on which nothing holds a GPU: their rows, how many, and how many of the largest there are.

    Nodes with one GPU are none to keep.
    """

    def __init__(self) -> None:
        self.mask: Mask = NONE
        self.count = 0
        self.largest_nodes = 0
        self._at = 0
        self._for = (-1, -1, -1)

    def follow(self, nodes: Nodes) -> None:
        """Bring it up to date."""
        size, most, log = len(nodes), nodes.most_gpus, nodes.touched
        shape = (size, most, nodes.gpu_counts_version)
        changed = log.since(self._at, at_most=FEW) if self._for == shape else None
        self._at, self._for = log.end, shape
        if most < 2:
            self.mask, self.count, self.largest_nodes = np.zeros(size, np.bool_), 0, 0
        elif changed is None:
            largest = nodes.gpu_count[:size] == most
            self.mask = largest & nodes.alive[:size] & (nodes.fleet.whole(slice(0, size)) == most)
            self.count, self.largest_nodes = int(np.count_nonzero(self.mask)), int(np.count_nonzero(largest))
        elif changed:
            for row in changed:
                idle = bool(nodes.gpu_count[row] == most and nodes.alive[row] and nodes.cards(row).whole == most)
                self.count += idle - int(self.mask[row])
                self.mask[row] = idle


class Costs:
    """Costs over `nodes` by `policy`."""

    def __init__(self, nodes: Nodes, policy: Policy) -> None:
        self._nodes = nodes
        self._policy = policy
        self.on_rows: Callable[[PodClass], None] = lambda cls: None
        """Called with each class that was brought up to date; it may drop what other classes keep."""
        self._foreign: Mask = NONE
        self._foreign_version = 0
        self._idle = _Idle()
        self.basis = Basis(UNKNOWN, NOWHERE)

    def use(self, prices: Prices, scarcity: Floats) -> None:
        """Other prices hold. The costs of a class are worked out anew when they are asked for."""
        self.basis = Basis(prices, scarcity)

    @property
    def foreign(self) -> Mask:
        """Nodes better left to other solvers; shorter than the nodes: the rest is not."""
        return self._foreign

    @foreign.setter
    def foreign(self, nodes: Mask) -> None:
        self._foreign, self._foreign_version = nodes, self._foreign_version + 1

    def of(self, cls: PodClass) -> Floats:
        """Cost of one pod of the class on each row; inf where it cannot go. Valid until the next touch."""
        self._follow(cls)
        return cls.cost

    def takes(self, cls: PodClass, row: int) -> bool:
        """Whether the cost of this row is finite; the costs themselves stay as they are."""
        nodes = self._nodes
        self._keep_suitable(cls, len(nodes))
        if not cls.suitable[row]:
            return False
        for each, query in cls.by_capacity:  # noqa: SIM110 - hot
            if not each.admits(query, row):
                return False
        return True

    def suitable(self, cls: PodClass) -> Mask:
        """The rows that suit the class by what the nodes are, whatever is free there."""
        self._keep_suitable(cls, len(self._nodes))
        return cls.suitable

    def _follow(self, cls: PodClass) -> list[int] | None:
        """Bring the costs of a class up to date; the rows that were worked out anew, None: all."""
        nodes, count = self._nodes, len(self._nodes)
        self._keep_suitable(cls, count)
        if cls.price is not None and cls.price.basis is not self.basis:
            before, cls.price = cls.price, None
            if not self._price(cls).says_what(before):
                cls.cost, cls.ranked = cls.cost[:0], None
        log, known = nodes.touched, cls.cost.shape[0]
        changed = log.since(cls.cost_at, at_most=max(FEW, count // 2)) if known else None
        if changed is None:
            cls.cost = self._work_out(cls, slice(0, count))
        else:
            if known < count:  # a row that is named before its node is seen is touched when that comes
                cls.cost = np.concatenate([cls.cost, np.full(count - known, np.inf)])
            if changed:
                self._renew(cls, changed)
        cls.cost_at = log.end
        if changed is None or known < count:
            self.on_rows(cls)
        return changed

    def ranked(self, cls: PodClass) -> Lowest:
        """The cost of one pod of the class with what depends on more than one node: whole nodes kept, others' parts.

        There has to be a node. Valid until the next touch.
        """
        log, before = self._nodes.touched, cls.cost_at
        changed = self._follow(cls)
        cost, ranked = cls.cost, cls.ranked
        key = (self._keeps_whole(cls), self._foreign_version, cost.size)
        if ranked is not None and cls.ranked_at != before:
            changed = log.since(cls.ranked_at, at_most=cost.size // 2)
        if ranked is None or changed is None or cls.ranked_for != key:
            ranked = cls.ranked = Lowest(self._beside(cost, slice(0, cost.size), keeps_whole=key[0]))
        elif len(changed) <= FEW:
            for row in changed:
                ranked.put(row, self._beside_one(float(cost[row]), row, keeps_whole=key[0]))
        else:
            rows = np.array(changed, np.intp)
            ranked.put_all(rows, self._beside(cost[rows], rows, keeps_whole=key[0]))
        cls.ranked_for, cls.ranked_at = key, log.end
        self.on_rows(cls)
        return ranked

    def _beside(self, cost: Floats, rows: Rows, *, keeps_whole: bool) -> Floats:
        """The cost of these rows with what depends on more than one node."""
        if keeps_whole:
            cost = cost + np.where(self._idle.mask[rows], self._policy.whole_reserve_cost, 0.0)
        if self._foreign.size:
            foreign = np.zeros(len(self._nodes), np.bool_)
            seen = min(self._foreign.size, foreign.size)
            foreign[:seen] = self._foreign[:seen]
            cost = cost + np.where(foreign[rows], self._policy.foreign_part, 0.0)
        return cost

    def _beside_one(self, cost: float, row: int, *, keeps_whole: bool) -> float:
        """What `_beside` says of one row."""
        if keeps_whole and self._idle.mask[row]:
            cost += self._policy.whole_reserve_cost
        if row < self._foreign.size and self._foreign[row]:
            cost += self._policy.foreign_part
        return cost

    def _keeps_whole(self, cls: PodClass) -> bool:
        """Whether so few of the largest GPU nodes are idle that who does not need a whole one is kept off them."""
        largest = self._nodes.most_gpus
        if cls.want is not None and cls.want.instances >= largest:
            return False
        idle = self._idle
        idle.follow(self._nodes)
        return 0 < idle.count <= max(1, self._policy_of(cls).reserve(self.basis.prices.whole) * idle.largest_nodes)

    def _keep_suitable(self, cls: PodClass, count: int) -> None:
        """Bring up to date which rows suit the class by what the nodes are."""
        log, known = self._nodes.reshaped, cls.suitable.shape[0]
        if known == count and cls.suitable_at == log.end:
            return
        changed = log.since(cls.suitable_at) if known else None
        if known < count:
            cls.suitable = np.concatenate([cls.suitable, np.zeros(count - known, np.bool_)])
        # A new row enters the log when its node is seen.
        rows = slice(0, count) if changed is None else np.array(changed, np.intp)
        if changed is None or changed:
            suits = self._nodes.alive[rows].copy()
            for constraint, query in cls.by_node:
                suits &= constraint.mask(query, rows)
            cls.suitable[rows] = suits
        cls.suitable_at = log.end

    def _work_out(self, cls: PodClass, rows: Rows) -> Floats:
        can = cls.suitable[rows].copy()
        for constraint, query in cls.by_capacity:
            can &= constraint.mask(query, rows)
        price, count = self._price(cls), int(np.count_nonzero(can))
        if isinstance(rows, slice) and DENSE * count > can.size:
            cost = price.of(rows, can)
            np.copyto(cost, np.inf, where=~can)
            return cost
        cost = np.full(can.shape, np.inf)
        if count:
            chosen = np.flatnonzero(can)
            cost[chosen] = price.of(chosen if isinstance(rows, slice) else rows[chosen])
        return cost

    def _renew(self, cls: PodClass, changed: list[int]) -> None:
        """Work out the cost of some rows."""
        if len(changed) <= FEW:
            for row in changed:
                cls.cost[row] = self._of_one(cls, row)
        else:
            rows = np.array(changed, np.intp)
            cls.cost[rows] = self._work_out(cls, rows)

    def _of_one(self, cls: PodClass, row: int) -> float:
        """What `_work_out` says of one row."""
        if not cls.suitable[row]:
            return np.inf
        for constraint, query in cls.by_capacity:
            if not constraint.admits(query, row):
                return np.inf
        return self._price(cls).of_one(row)

    def _price(self, cls: PodClass) -> Price:
        if cls.price is None:
            cls.price = Price(self._nodes, self._policy_of(cls), self.basis, cls.requests, cls.want)
        return cls.price

    def _policy_of(self, cls: PodClass) -> Policy:
        """With the weights that the profile of the class sets."""
        if cls.policy is None:
            cls.policy = policy_of(cls.rules.node_cost, self._policy)
        return cls.policy
