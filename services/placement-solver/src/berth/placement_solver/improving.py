"""A cheaper plan of who leaves for a job is looked for beside the rounds, for a few seconds, by the optimiser.

One job at a time. The plan at hand is not committed meanwhile: whoever is evicted for it would be evicted for good. Nor
is anything kept for the job, since what it waits for is not free. What comes back is an advice: the job is planned anew
on what there is by then, with the advice as one more plan, and judged like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from berth.placement_solver import metrics
from berth.placement_solver.asking import Question
from berth.placement_solver.core.displacers.advice import Advice, JobQuestion
from berth.placement_solver.core.displacers.seam import Refused
from berth.placement_solver.core.joint.leaving import leaving_problem
from berth.placement_solver.optimiser import JointSolver


class Job(NamedTuple):
    """A job that was refused, and what is asked about it."""

    refused: Refused
    question: JobQuestion


class Improving:
    """The job that the optimiser looks at. `on_answer` is called when it is over, with or without an answer."""

    def __init__(self, optimiser: JointSolver, budget_s: float, on_answer: Callable[[], None]) -> None:
        self._budget_s = budget_s
        self.question: Question[Job] = Question(optimiser, "improve", on_answer)

    def start(self, refused: Refused, question: JobQuestion) -> None:
        """Ask whether there is a cheaper plan for a job that was refused."""
        self.question.ask(leaving_problem(question.problem, question.plan, self._budget_s), Job(refused, question))

    def take(self) -> tuple[Refused, Advice | None]:
        """The job, and the advice if there is one.

        Raises what the optimiser raised.
        """
        (refused, question), answer, _ = self.question.take()
        if answer is None or answer.counts is None:
            return refused, None
        metrics.GAP.set(answer.gap)
        return refused, question.advice(answer.counts, answer.units)
