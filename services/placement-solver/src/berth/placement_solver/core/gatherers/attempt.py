"""What gatherers ask of the solver: slots of nodes, and to place somebody here or within some nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from berth.placement_solver.core.gatherers.seam import Ints
from berth.placement_solver.core.nodes import AMOUNT_MAX
from berth.placement_solver.core.plan import Candidate, Placement
from berth.placement_solver.core.pods_at_most import pods_at_most
from berth.placement_solver.core.seams import Mask, RowArray
from berth.rules.network_topology.capacity import slots_in_order

if TYPE_CHECKING:  # it asks gatherers itself
    from berth.placement_solver.core.solve import Solver
    from berth.placement_solver.core.trial import Trial


class SolverAttempt:
    """See `Attempt`; on one trial."""

    def __init__(self, solver: Solver, trial: Trial, plan: str) -> None:
        self._solver = solver
        self._trial = trial
        self._plan = plan
        self._start = len(trial.claims)

    def slots(self, members: tuple[Candidate, ...], rows: RowArray) -> Ints:
        """See `Attempt`. Of constraints of single pods those count that all members share."""
        able: Mask = np.ones(len(rows), np.bool_)
        for each in members[0].asked:
            if all(each in other.asked for other in members):
                constraint, query = each
                able &= constraint.mask(query, rows)
        nodes, first = self._solver.nodes, members[0].cls
        if all(each.cls is first for each in members):
            most = pods_at_most(first, len(members), nodes, self._solver.costs, rows)
            return np.where(able, most, 0)
        wants = [dict(each.cls.demand.wants) for each in members]
        columns = sorted({column for each in wants for column in each})
        asked = [np.array([each.get(column, 0) for each in wants]) for column in columns]
        free = [np.clip(nodes.free[column, rows], 0, AMOUNT_MAX) for column in columns]
        return np.where(able, slots_in_order(asked, free) if columns else len(members), 0)

    def are_alike(self, members: tuple[Candidate, ...]) -> bool:
        """See `Attempt`."""
        first = members[0]
        return not any(self._solver.may_draw(each) for each in members) and all(
            each.cls is first.cls and each.asked == first.asked for each in members
        )

    def place_on(self, candidate: Candidate, row: int) -> Placement | None:
        """See `Attempt`."""
        return self._solver.place_at(candidate, row, self._trial, self._plan)

    def place_within(self, candidate: Candidate, rows: Mask) -> Placement | None:
        """See `Attempt`."""
        found = self._solver.place(candidate, self._trial, self._plan, within=rows)
        return found if isinstance(found, Placement) else None

    def take_back(self) -> None:
        """See `Attempt`."""
        self._trial.take_back(self._start)
