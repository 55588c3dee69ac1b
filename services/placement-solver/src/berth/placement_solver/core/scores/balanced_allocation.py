"""NodeResourcesBalancedAllocation: how alike the parts are to which a node's resources would be requested."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.placement_solver.core.nodes import Ints, Nodes
from berth.placement_solver.core.scores.amounts import Asked, asked_of, offered, requested, weights_of
from berth.placement_solver.core.scores.normalise import SCORE_MAX
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Spec
from berth.placement_solver.core.tallies.scored import ScoredTally
from berth.rules.scheduler_config import BalancedArgs


def balance(filled: Sequence[tuple[Ints, Ints]]) -> Ints:
    """100 less the deviation of the parts, in percent, truncated; `filled`: what would be requested, what there is.

    Of two parts it is half their difference, of more the standard deviation over all of them; a resource that the node
    does not have is left out. The order of the operations is kube-scheduler's, so that the last bit is the same.
    """
    shape = filled[0][0].shape
    parts, there = [], []
    for asked, whole in filled:
        there.append(whole > 0)
        parts.append(np.where(whole > 0, np.minimum(asked / np.maximum(whole, 1), 1.0), 0.0))
    count = np.sum(there, axis=0)
    mean = _sum(parts, shape) / np.maximum(count, 1)
    squares = [(part - mean) * (part - mean) * has for part, has in zip(parts, there, strict=True)]
    deviation = np.sqrt(_sum(squares, shape) / np.maximum(count, 1))
    lowest = np.min([np.where(has, part, np.inf) for part, has in zip(parts, there, strict=True)], axis=0)
    deviation = np.where(count == 2, (np.max(parts, axis=0) - lowest) / 2, deviation)
    deviation = np.where(count < 2, 0.0, deviation)
    scores: Ints = np.trunc((1 - deviation) * SCORE_MAX).astype(np.int64)
    return scores


class BalancedAllocationScore:
    """Rated by plain requests, for pods that ask for one of the resources."""

    name = "NodeResourcesBalancedAllocation"
    depends = Depends.NODE | Depends.CAPACITY

    def __init__(self, nodes: Nodes, tally: ScoredTally, args: BalancedArgs | None = None) -> None:
        self._nodes = nodes
        self._tally = tally
        self._weights = weights_of((each.name, each.weight) for each in (args or BalancedArgs()).resources)

    def prescore(self, spec: Spec) -> tuple[Asked, ...] | None:
        """The resources that count; None for a pod that asks for none of them."""
        asked = asked_of(self._weights, spec.template.requests)
        return asked if any(each.amount for each in asked) else None

    def raw(self, query: tuple[Asked, ...], rows: RowArray) -> Floats:
        """The balance with the pod there."""
        filled = [
            (
                requested(self._nodes, self._tally, each.resource, rows) + each.amount,
                offered(self._nodes, each.resource, rows),
            )
            for each in query
        ]
        return balance(filled).astype(np.float64)

    def normalise(self, query: tuple[Asked, ...], raw: Floats, rows: RowArray) -> Floats:
        """As they are."""
        return raw


def _sum(parts: Sequence[Floats], shape: tuple[int, ...]) -> Floats:
    """From left to right: a sum in pairs would differ in the last bit."""
    total = np.zeros(shape)
    for part in parts:
        total = total + part
    return total
