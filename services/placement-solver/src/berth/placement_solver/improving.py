"""A cheaper plan of who leaves for a job is looked for beside the rounds, for a few seconds, by the optimiser.

One job at a time. The plan at hand is not committed meanwhile: whoever is evicted for it would be evicted for good. Nor
is anything kept for the job, since what it waits for is not free. What comes back is an advice: the job is planned anew
on what there is by then, with the advice as one more plan, and judged like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from berth.placement_solver import metrics
from berth.placement_solver.core.displacers.advice import Advice, JobQuestion
from berth.placement_solver.core.displacers.seam import Refused
from berth.placement_solver.core.joint.leaving import leaving_problem
from berth.placement_solver.optimiser import Answer, JointSolver


class _Asked(NamedTuple):
    refused: Refused
    question: JobQuestion
    task: asyncio.Task[Answer | None]


class Improving:
    """The job that the optimiser looks at. `on_answer` is called when it is over, with or without an answer."""

    def __init__(self, optimiser: JointSolver, budget_s: float, on_answer: Callable[[], None]) -> None:
        self._optimiser = optimiser
        self._budget_s = budget_s
        self._on_answer = on_answer
        self._asked: _Asked | None = None

    @property
    def is_busy(self) -> bool:
        """A job is with the optimiser, or its answer has not been taken yet."""
        return self._asked is not None

    @property
    def is_answered(self) -> bool:
        """`take` has something."""
        return self._asked is not None and self._asked.task.done()

    def start(self, refused: Refused, question: JobQuestion) -> None:
        """Ask whether there is a cheaper plan for a job that was refused."""
        problem = leaving_problem(question.problem, question.plan, self._budget_s)
        task = asyncio.create_task(self._optimiser.solve(problem), name="improve")
        task.add_done_callback(lambda _: self._on_answer())
        self._asked = _Asked(refused, question, task)

    def take(self) -> tuple[Refused, Advice | None]:
        """The job, and the advice if there is one.

        Raises what the optimiser raised.
        """
        if self._asked is None:
            raise RuntimeError("nothing was asked")
        (refused, question, task), self._asked = self._asked, None
        answer = task.result()
        if answer is None or answer.counts is None:
            return refused, None
        metrics.GAP.set(answer.gap)
        return refused, question.advice(answer.counts, answer.units)

    async def stop(self) -> None:
        """Ask no more, and wait for no answer."""
        if self._asked is not None:
            self._asked.task.cancel()
            await asyncio.wait([self._asked.task])
