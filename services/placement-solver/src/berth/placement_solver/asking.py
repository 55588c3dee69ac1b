"""A question that is with the optimiser: rounds go on, and take its answer once it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from berth.placement_solver.optimiser import Answer, JointSolver, Problem

About = TypeVar("About")


class Answered(NamedTuple, Generic[About]):
    """What a question was about, and its answer; without one, `trouble` says why: empty where there is none to it."""

    about: About
    answer: Answer | None
    trouble: str


class Question(Generic[About]):
    """One question at a time. `on_answer` is called when it is over, with or without an answer."""

    def __init__(self, optimiser: JointSolver, name: str, on_answer: Callable[[], None]) -> None:
        self._optimiser = optimiser
        self._name = name
        self._on_answer = on_answer
        self._task: asyncio.Task[Answered[About]] | None = None

    @property
    def is_busy(self) -> bool:
        """It is out, or its answer has not been taken yet."""
        return self._task is not None

    @property
    def is_answered(self) -> bool:
        """`take` has something."""
        return self._task is not None and self._task.done()

    def ask(self, problem: Problem, about: About) -> None:
        """Ask, where none is out."""
        self._task = asyncio.create_task(self._asked(problem, about), name=self._name)
        self._task.add_done_callback(lambda _: self._on_answer())

    def take(self) -> Answered[About]:
        """What it was about, and the answer.

        Raises what the optimiser raised.
        """
        if self._task is None:
            raise RuntimeError("nothing was asked")
        task, self._task = self._task, None
        return task.result()

    async def stop(self) -> None:
        """Ask no more, and wait for no answer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _asked(self, problem: Problem, about: About) -> Answered[About]:
        answer = await self._optimiser.solve(problem)
        return Answered(about, answer, self._optimiser.trouble if answer is None else "")
