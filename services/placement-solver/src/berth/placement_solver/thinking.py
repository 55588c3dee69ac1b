"""A contended batch with the optimiser: the rounds of everybody else go on meanwhile.

One batch at a time. What the plan at hand would give to its units is kept for them, so that nobody who comes later and
needs less gets it; a unit whose object changes is released at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from berth.placement_solver.asking import Question
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.joint.problem import Layout, build_problem
from berth.placement_solver.core.plan import Solution, Unit
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.mishaps import told
from berth.placement_solver.optimiser import Answer, JointSolver
from berth.placement_solver.origins.answers import kept_of
from berth.placement_solver.written import decisions_on
from berth.transaction.claims import Name


class Contended(NamedTuple):
    """A batch that was asked about: its units, the plan at hand, and what the counts of an answer mean."""

    units: Sequence[Unit]
    greedy: Solution
    layout: Layout


class Thinking:
    """What is with the optimiser. `on_answer` is called when it is over, with or without an answer."""

    def __init__(
        self, cluster: ClusterView, optimiser: JointSolver, budget_s: float, on_answer: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._budget_s = budget_s
        self.question: Question[Contended] = Question(optimiser, "optimise", on_answer)

    def start(self, units: Sequence[Unit], greedy: Solution, trial: Trial) -> bool:
        """Ask about a batch whose plan at hand the trial holds; the trial is empty then.

        False: there is nothing to ask about, and the trial is as it was.
        """
        cluster = self._cluster
        claims = list(trial.claims)
        trial.undo()
        try:
            solver = cluster.solver
            written = build_problem(
                units, greedy, cluster.nodes, solver.costs, solver.picker, cluster.quotas, self._budget_s
            )
        except Exception as error:
            told(error, "optimiser")
            written = None
        if written is None:
            for claim in claims:
                trial.add(claim)
            return False
        cluster.capacity.hold(claims)
        cluster.kept = kept_of(decisions_on(cluster, greedy.placements, "")[0])
        problem, layout = written
        self.question.ask(problem, Contended(units, greedy, layout))
        return True

    def take(self) -> tuple[Contended, Answer | None, set[Name]]:
        """The batch and its answer, None where there is none in time; and who still had capacity kept, which is free
        now.

        Raises what the optimiser raised.
        """
        answered = self.question.take()
        return answered.about, answered.answer, self._cluster.capacity.release_held()
