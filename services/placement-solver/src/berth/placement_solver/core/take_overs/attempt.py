"""What the placing of a Reservation that takes over pods asks of the solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from berth.contracts.base import Reason
from berth.placement_solver.core.plan import Candidate, Placement
from berth.placement_solver.core.seams import Mask, Target
from berth.transaction.claims import Claim

if TYPE_CHECKING:
    from berth.placement_solver.core.solve import Solver
    from berth.placement_solver.core.trial import Trial


class SolverTrying:
    """See `Trying`."""

    def __init__(self, solver: Solver, candidate: Candidate, trial: Trial, plan: str) -> None:
        self._solver = solver
        self._candidate = candidate
        self._trial = trial
        self._plan = plan

    def free(self) -> Placement | tuple[Reason, ...]:
        """See `Trying`."""
        return self._solver.place_free(self._candidate, self._trial, self._plan)

    def under(self, asked: Target, chosen: Target) -> Placement | None:
        """See `Trying`."""
        if not self._solver.admits(self._candidate, asked):
            return None
        return self._solver.place_under(self._candidate, chosen, self._plan)

    def charge(self, placement: Placement) -> None:
        """See `Trying`."""
        self._trial.add(placement.claim)

    def amend(self, placement: Placement) -> None:
        """See `Trying`."""
        self._trial.amend(placement.claim)

    @property
    def charged(self) -> Sequence[Claim]:
        """See `Trying`."""
        return self._trial.claims

    @property
    def within(self) -> Mask | None:
        """See `Trying`."""
        return self._solver.within
