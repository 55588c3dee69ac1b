"""A contended batch with the optimiser: the rounds of everybody else go on meanwhile.

One batch at a time. What the plan at hand would give to its units is kept for them, so that nobody who comes later and
needs less gets it; a unit whose object changes is released at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from berth.placement_solver.answers import kept_of
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.joint.problem import Layout, build_problem
from berth.placement_solver.core.plan import Solution, Unit
from berth.placement_solver.core.solve import Trial
from berth.placement_solver.mishaps import told
from berth.placement_solver.optimiser import Answer, JointSolver
from berth.placement_solver.written import decisions_on
from berth.transaction.claims import Name


class Question(NamedTuple):
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
        self._optimiser = optimiser
        self._budget_s = budget_s
        self._on_answer = on_answer
        self._question: Question | None = None
        self._task: asyncio.Task[Answer | None] | None = None

    @property
    def is_busy(self) -> bool:
        """A batch is with the optimiser, or its answer has not been taken yet."""
        return self._task is not None

    @property
    def is_answered(self) -> bool:
        """`take` has something."""
        return self._task is not None and self._task.done()

    def start(self, units: Sequence[Unit], greedy: Solution, trial: Trial) -> bool:
        """Ask about a batch whose plan at hand the trial holds; the trial is empty then.

        False: there is nothing to ask about, and the trial is as it was.
        """
        cluster = self._cluster
        claims = list(trial.claims)
        trial.undo()
        try:
            written = build_problem(
                units, cluster.nodes, cluster.solver.costs, cluster.solver.picker, cluster.quotas, self._budget_s
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
        self._question = Question(units, greedy, layout)
        self._task = asyncio.create_task(self._optimiser.solve(problem), name="optimise")
        self._task.add_done_callback(lambda _: self._on_answer())
        return True

    def take(self) -> tuple[Question, Answer | None, set[Name]]:
        """The batch and its answer, None where there is none in time; and who still had capacity kept, which is free
        now.

        Raises what the optimiser raised.
        """
        question, task = self._question, self._task
        if question is None or task is None:
            raise RuntimeError("nothing was asked")
        self._question = self._task = None
        kept = self._cluster.capacity.release_held()
        return question, task.result(), kept

    async def stop(self) -> None:
        """Ask no more, and wait for no answer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
