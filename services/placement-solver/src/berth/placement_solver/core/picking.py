"""The node that a pod takes among those that fit: by Berth's cost, less what the pod prefers, or by scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.policy import Policy
from berth.placement_solver.core.ranking import Rated, best, preferred, total
from berth.placement_solver.core.rated_rows import Rating, follow
from berth.placement_solver.core.registry import Weighed
from berth.placement_solver.core.seams import Floats, RowArray

Asked: TypeAlias = "Rating | tuple[Weighed, Any]"
"""A rating that is kept for the class, or a score with what is asked of it for one pod."""


class Picker:
    """Picks over `nodes` by `policy`, and by the profile of whoever waits."""

    def __init__(self, nodes: Nodes, policy: Policy) -> None:
        self._nodes = nodes
        self._policy = policy
        self.on_rows: Callable[[PodClass], None] = lambda cls: None
        """Called with each class whose ratings were brought up to date; it may drop what other classes keep."""

    def asked(self, candidate: Candidate) -> list[Asked]:
        """The scores that matter for this candidate; none: its cost decides alone."""
        asked: list[Asked] = [*self._of_class(candidate.cls)]
        rules, template = candidate.cls.rules, candidate.object.template
        if rules.scores_of_pod:
            for weighed in rules.scores_for(rules.scores_of_pod, template):
                query = weighed.score.prescore(candidate.spec)
                if query is not None:
                    asked.append((weighed, query))
        return asked

    def next(self, cls: PodClass, asked: Sequence[Asked], cost: Floats) -> int | None:
        """The row to take among those of finite cost; None where there is none."""
        if not asked:
            row = int(np.argmin(cost))
            return row if np.isfinite(cost[row]) else None
        rows = np.flatnonzero(np.isfinite(cost))
        if rows.size < 2:
            return int(rows[0]) if rows.size else None
        rated = [_among(each, rows) for each in asked]
        if cls.rules.decides_by_score:
            return int(rows[best(rated, rows, cost[rows])])
        return int(rows[np.argmin(preferred(rated, rows, cost[rows], self._policy.preference))])

    def in_order(self, cls: PodClass, cost: Floats) -> Floats:
        """The costs of a class such that the lowest is taken first, as far as the class alone says it."""
        asked = self._of_class(cls)
        rows = np.flatnonzero(np.isfinite(cost))
        if not asked or not rows.size:
            return cost
        rated = [_among(each, rows) for each in asked]
        result = cost.copy()
        if cls.rules.decides_by_score:
            result[rows] = -total(rated, rows)
        else:
            result[rows] = preferred(rated, rows, cost[rows], self._policy.preference)
        return result

    def _of_class(self, cls: PodClass) -> list[Rating]:
        changed = [follow(rating, self._nodes) for rating in cls.ratings]
        if any(changed):
            self.on_rows(cls)
        return [rating for rating in cls.ratings if rating.values is not None]


def _among(asked: Asked, rows: RowArray) -> Rated:
    if isinstance(asked, Rating):
        return asked.among(rows)
    weighed, query = asked
    return Rated(weighed.score, weighed.weight, query, weighed.score.raw(query, rows))
