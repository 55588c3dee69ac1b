"""All doers of this agent behind one door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from berth.contracts.base import Problem
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.core.strategies.seam import Ref


class Done(NamedTuple):
    """What a round came to. `lacks`: this machine cannot do it at all, and why."""

    changed: int = 0
    problems: tuple[Problem, ...] = ()
    lacks: str = ""


class Doer(Protocol):
    """Does what is wanted of some knobs."""

    @property
    def knobs(self) -> frozenset[str]:
        """Which ones."""

    def bring(self, wanted: Mapping[Ref, str]) -> Done:
        """Bring about exactly this. Blocking."""


class Doers:
    """Every doer, asked in turn. One that was asked for nothing since this process started is asked once, since a
    process before may have left something."""

    def __init__(self, doers: Sequence[Doer]) -> None:
        """Take them."""
        self._doers = doers
        self._is_clear: set[int] = set()

    @property
    def knobs(self) -> frozenset[str]:
        """What they do."""
        return frozenset[str]().union(*(each.knobs for each in self._doers))

    def bring(self, wanted: Mapping[Ref, str], *, undecided: frozenset[str] = frozenset()) -> Done:
        """Bring about all that is wanted. Knobs of strategies that have not decided stay as they are."""
        changed, problems, lacks = 0, list[Problem](), list[str]()
        for place, doer in enumerate(self._doers):
            mine = {ref: value for ref, value in wanted.items() if ref.knob in doer.knobs}
            if (not mine and place in self._is_clear) or doer.knobs & undecided:
                continue
            done = doer.bring(mine)
            changed += done.changed
            problems += done.problems
            if done.lacks and mine:
                lacks.append(done.lacks)
            if mine:
                self._is_clear.discard(place)
            elif not done.problems:
                self._is_clear.add(place)
            for knob in sorted(doer.knobs) if done.changed else ():
                figures.WRITES.labels(knob, "written").inc()
        return Done(changed, tuple(problems), "; ".join(lacks))

    def clear(self) -> tuple[Problem, ...]:
        """Take away all that is ours."""
        self._is_clear.clear()
        return self.bring({}).problems
