"""Searching a transition system: breadth first with shortest traces, and random walks for what lies deeper.

Only fingerprints of states are kept. A trace is found again by walking them from the start.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

WALK_STEPS = 120
STATES_MAX = 6_000_000


class Move(Protocol):
    """A step of a system."""

    @property
    def what(self) -> str:
        """The kind of step, in a few words."""

    @property
    def details(self) -> tuple[object, ...]:
        """Who and what."""

    @property
    def after(self) -> Any:
        """The state after it, which can be hashed."""


class System(Protocol):
    """What can be searched. Verdicts are empty while all is well."""

    def initial(self) -> Any:
        """Where it starts."""

    def steps(self, state: Any) -> Iterable[Move]:
        """Everything that may happen next."""

    def canonical(self, state: Any) -> Any:
        """One of the states that are alike."""

    def broken(self, state: Any) -> str:
        """What is wrong at this moment."""

    def stuck(self, state: Any) -> str:
        """What never comes to pass from here, though nothing more goes wrong."""


class Result(NamedTuple):
    """What a search found. `verdict` is empty when nothing was; `is_complete`: there is nothing more to search.

    `depth` is the length of the trace or, without one, of the runs that were searched; of walks, their number.
    """

    verdict: str
    is_complete: bool
    states: int
    depth: int
    fair_runs: int
    seconds: float
    trace: tuple[str, ...] = ()


def explore(system: System, *, seconds: float, fair_every: int = 40) -> Result:
    """Every state, nearest first; from every `fair_every`-th also a fair run without faults (0: none)."""
    began = time.monotonic()
    start = system.canonical(system.initial())
    parents: dict[int, int | None] = {hash(start): None}
    frontier, depth, fair_runs = [start], 0, 0

    def result(verdict: str, is_complete: bool, length: int, trace: tuple[str, ...] = ()) -> Result:
        return Result(verdict, is_complete, len(parents), length, fair_runs, time.monotonic() - began, trace)

    while frontier:
        following = []
        for state in frontier:
            mark = hash(state)
            for step in system.steps(state):
                after = system.canonical(step.after)
                found = hash(after)
                if found in parents:
                    continue
                parents[found] = mark
                verdict = system.broken(after)
                if not verdict and fair_every and len(parents) % fair_every == 0:
                    fair_runs += 1
                    verdict = system.stuck(after)
                if verdict:
                    return result(verdict, True, depth + 1, _trace(system, parents, found))
                following.append(after)
            if time.monotonic() - began > seconds or len(parents) > STATES_MAX:
                return result("", False, depth)
        frontier = following
        depth += 1
    return result("", True, depth - 1)


def _trace(system: System, parents: dict[int, int | None], goal: int) -> tuple[str, ...]:
    chain = [goal]
    while (before := parents[chain[-1]]) is not None:
        chain.append(before)
    state, told = system.canonical(system.initial()), []
    for mark in reversed(chain[:-1]):
        for step in system.steps(state):
            after = system.canonical(step.after)
            if hash(after) == mark:
                told.append(_tell(step))
                state = after
                break
    return tuple(told)


def walk(system: System, *, seconds: float, walks: int = 10**9, seed: int = 1) -> Result:
    """Random walks, each ended by a fair run without faults. The kind of step is drawn first, then the step, so that
    readers don't crowd out the rest."""
    dice = random.Random(seed)
    began, count, steps = time.monotonic(), 0, 0
    while count < walks and time.monotonic() - began < seconds:
        count += 1
        state, told = system.initial(), []
        for _ in range(WALK_STEPS):
            kinds: dict[str, list[Move]] = {}
            for step in system.steps(state):
                kinds.setdefault(step.what, []).append(step)
            if not kinds:
                break
            step = dice.choice(kinds[dice.choice(sorted(kinds))])
            state, steps = step.after, steps + 1
            told.append(_tell(step))
            if verdict := system.broken(state):
                return Result(verdict, True, steps, count, count, time.monotonic() - began, tuple(told))
        if verdict := system.stuck(state):
            return Result(verdict, True, steps, count, count, time.monotonic() - began, tuple(told))
    return Result("", count == walks, steps, count, count, time.monotonic() - began)


def _tell(step: Move) -> str:
    return " ".join([step.what, *map(str, step.details)])
