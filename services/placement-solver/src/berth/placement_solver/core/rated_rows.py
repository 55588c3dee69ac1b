"""Ratings of classes on all nodes, kept up to date row by row, as their costs are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.ranking import Rated
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Score


@dataclass(eq=False)
class Rating:
    """What a score says of a class. `values` by row; None: 0 everywhere, as where no node has what it looks for."""

    score: Score[Any]
    weight: int
    query: Any
    values: Floats | None = None
    known: int = 0
    """How many rows are rated."""
    node_at: int = 0
    capacity_at: int = 0

    def __post_init__(self) -> None:
        self.by_capacity = Depends.CAPACITY in self.score.depends

    def forget(self) -> None:
        """Keep nothing; all rows are rated anew when they are asked for."""
        self.values, self.known = None, 0

    def among(self, rows: RowArray) -> Rated:
        """Of these rows."""
        values = np.zeros(rows.shape) if self.values is None else self.values[rows]
        return Rated(self.score, self.weight, self.query, values)


def follow(rating: Rating, nodes: Nodes) -> bool:
    """Bring a rating up to date, which depends on the nodes and what is free there alone; whether it was not."""
    count, by_capacity = len(nodes), rating.by_capacity
    node_end, capacity_end = nodes.reshaped.end, nodes.touched.end
    is_current = rating.node_at == node_end and (not by_capacity or rating.capacity_at == capacity_end)
    if is_current and rating.known == count:
        return False
    rows = _changed(rating, nodes, count)
    if rows.size:
        _put(rating, rows, rating.score.raw(rating.query, rows), count)
    elif rating.values is not None:
        rating.values = _widened(rating.values, count)
    rating.known, rating.node_at, rating.capacity_at = count, node_end, capacity_end
    return True


def _changed(rating: Rating, nodes: Nodes, count: int) -> RowArray:
    """The rows to rate anew. A new row enters the logs when its node is seen."""
    if rating.known == 0:
        return np.arange(count)
    reshaped = nodes.reshaped.since(rating.node_at)
    touched = nodes.touched.since(rating.capacity_at) if rating.by_capacity else []
    if reshaped is None or touched is None:
        return np.arange(count)
    changed = {*reshaped, *touched}
    return np.arange(count) if len(changed) > count // 2 else np.array(sorted(changed), np.intp)


def _put(rating: Rating, rows: RowArray, fresh: Floats, count: int) -> None:
    has_any = bool(fresh.any())
    if rows.size == count:
        rating.values = fresh if has_any else None
    elif rating.values is not None or has_any:
        rating.values = np.zeros(count) if rating.values is None else _widened(rating.values, count)
        rating.values[rows] = fresh


def _widened(values: Floats, count: int) -> Floats:
    return values if values.shape[0] == count else np.pad(values, (0, count - values.shape[0]))
