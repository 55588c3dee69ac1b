"""Solving under the eyes of the independent verifier: what it rejects is taken back and reported, never committed.

A plugin that raises costs those their turn about whom it was asked, and nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence

from berth.contracts.base import Reason
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.mishaps import Mishap
from berth.placement_solver.core.plan import Placement, Refusal, Solution, Unit
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.mishaps import told
from berth.telemetry import get_logger

log = get_logger(__name__)
REPORTED_MAX = 8


class VerifiedSolver:
    """Plans that the verifier agrees to."""

    def __init__(self, cluster: ClusterView, verifier: Verifier) -> None:
        self._cluster = cluster
        self._verifier = verifier

    def problems(self, placements: Sequence[Placement]) -> list[str]:
        """What the verifier holds against these placements together; also that it cannot say."""
        try:
            return self._verifier.check([placement.claim for placement in placements])
        except Exception as error:
            return [told(error, "verifier").message]

    def solve(self, units: Sequence[Unit], trial: Trial, plan: str) -> Solution:
        """A plan for the units; the trial holds its claims.

        A unit of which a plan was rejected before is tried behind the others, by itself.
        """
        aside = {unit.id for unit in units if self._was_rejected(unit)}
        together = [unit for unit in units if unit.id not in aside] if aside else units
        solution = self.tried(together, trial, plan)
        if isinstance(solution, Mishap):
            return self._one_by_one(units, trial, plan, Solution((), ()))
        problems = self.problems(solution.placements)
        if problems:
            metrics.REJECTED_PLANS.inc()
            log.error(
                "the verifier rejected a plan: it is not committed; please report this",
                plan=plan,
                problems=problems[:REPORTED_MAX],
            )
            trial.undo()
            solution = self._one_by_one(together, trial, plan, Solution((), ()))
        if aside:
            solution = self._one_by_one([unit for unit in units if unit.id in aside], trial, plan, solution)
        return solution

    def tried(self, units: Sequence[Unit], trial: Trial, plan: str) -> Solution | Mishap:
        """A plan that nobody has looked at, or what a plugin raised; then nothing is charged for it."""
        before = len(trial.claims)
        try:
            return self._cluster.solver.solve(units, trial, plan)
        except Exception as error:
            mishap = told(error, units=[unit.id for unit in units[:REPORTED_MAX]])
            trial.undo(before)
            return mishap

    def _was_rejected(self, unit: Unit) -> bool:
        waiting = self._cluster.queue.waiting
        return any((each := waiting.get(c.name)) is not None and each.rejected for c in unit.candidates)

    def _one_by_one(self, units: Sequence[Unit], trial: Trial, plan: str, others: Solution) -> Solution:
        """Solve units beside what others got, so that one which the verifier rejects, or at which a plugin raises,
        costs only itself."""
        placements = list(others.placements)
        refusals = list(others.refusals)
        for unit in units:
            before = len(trial.claims)
            found = self.tried([unit], trial, plan)
            if isinstance(found, Mishap):
                refusals += self._rejected(unit, found.reason)
                continue
            problems = self.problems((*placements, *found.placements))
            if problems:
                trial.undo(before)
                reason = Reason(code="verifier", message=f"internal: plan rejected by the verifier: {problems[0]}")
                refusals += self._rejected(unit, reason)
            else:
                placements += found.placements
                refusals += found.refusals
        return Solution(tuple(placements), tuple(refusals))

    def _rejected(self, unit: Unit, reason: Reason) -> list[Refusal]:
        for candidate in unit.candidates:
            if (waiting := self._cluster.queue.waiting.get(candidate.name)) is not None:
                waiting.rejected = True
        return [Refusal(candidate, (reason,), unit.gang_of.get(candidate.name, "")) for candidate in unit.candidates]
