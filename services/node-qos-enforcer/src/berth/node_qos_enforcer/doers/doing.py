"""All doers of this agent behind one door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from berth.contracts.base import Problem
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.store import JournalFile

NOWHERE: Final = JournalFile("")


class Done(NamedTuple):
    """What a round came to. `lacks`: this machine cannot do it at all, and why."""

    changed: int = 0
    problems: tuple[Problem, ...] = ()
    lacks: str = ""
    lacking: frozenset[str] = frozenset()
    """Knobs that this machine does not have."""


class Doer(Protocol):
    """Does what is wanted of some knobs."""

    @property
    def knobs(self) -> frozenset[str]:
        """Which ones."""

    def bring(self, wanted: Mapping[Ref, str]) -> Done:
        """Bring about exactly this. Blocking."""


class _Begun(msgspec.Struct, frozen=True):
    """What has been done since the machine was booted, by knob."""

    boot: str
    knobs: list[str]


class Doers:
    """Every doer, asked in turn. That it did something is on disk before it does: a process that follows knows whether
    there is anything to take away, and touches nothing that others have made."""

    def __init__(self, doers: Sequence[Doer] = (), file: JournalFile = NOWHERE, *, boot: str = "") -> None:
        """Take them, where is kept what was done, and what identifies this boot."""
        self._doers = doers
        self._file = file
        self._boot = boot
        self._begun: set[str] = set()
        self._wanted: Mapping[Ref, str] = {}
        self._shares: list[Mapping[Ref, str]] = [{} for _ in doers]
        self.problem: Problem | None = None
        self._aside: Problem | None = None

    def load(self) -> None:
        """Take up what a former process has done. Where that cannot be read it may be anything: what is nobody's wish
        is taken away, by the names that doers give; the file is kept aside, and named for as long as this process runs.
        """
        try:
            data = self._file.load()
            read = _Begun("", []) if data is None else msgspec.json.decode(data, type=_Begun)
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            self._keep_aside(f"what was done cannot be read: {error}"[:200])
            self._begun = set(self.knobs)
            return
        self._begun = set(read.knobs) if read.boot == self._boot else set()

    def problems(self) -> tuple[Problem, ...]:
        """Why what was done could not be read or kept, if it could not."""
        return tuple(each for each in (self._aside, self.problem) if each is not None)

    @property
    def has_done(self) -> bool:
        """Whether there is anything to take away."""
        return bool(self._begun)

    @property
    def knobs(self) -> frozenset[str]:
        """What they do."""
        return frozenset[str]().union(*(each.knobs for each in self._doers))

    def bring(self, wanted: Mapping[Ref, str], *, undecided: frozenset[str] = frozenset()) -> Done:
        """Bring about all that is wanted. Knobs of strategies that have not decided stay as they are. The same object
        says: as before."""
        changed, problems, lacks, lacking = 0, list[Problem](), list[str](), set[str]()
        if wanted is not self._wanted:
            self._wanted = wanted
            of_knobs = [each.knobs for each in self._doers]
            self._shares = [{ref: value for ref, value in wanted.items() if ref.knob in knobs} for knobs in of_knobs]
        for doer, mine in zip(self._doers, self._shares, strict=True):
            if (not mine and not doer.knobs & self._begun) or doer.knobs & undecided:
                continue
            if mine:
                self._note(self._begun | doer.knobs)
            done = doer.bring(mine)
            changed += done.changed
            problems += done.problems
            if done.lacks and mine:
                lacks.append(done.lacks)
                lacking |= doer.knobs
            if not mine and not done.problems:
                self._note(self._begun - doer.knobs)
            for knob in sorted(doer.knobs) if done.changed else ():
                figures.WRITES.labels(knob, "written").inc()
        return Done(changed, tuple(problems), "; ".join(lacks), frozenset(lacking))

    def clear(self) -> tuple[Problem, ...]:
        """Take away all that is ours."""
        return self.bring({}).problems

    def _keep_aside(self, why: str) -> None:
        try:
            where = f"kept as {self._file.keep_aside()}"
        except OSError as error:
            self._file = NOWHERE
            where = f"it cannot be kept aside ({error}), so nothing is kept of what is done"
        self._aside = Problem(field="doers", message=f"{why}; {where}"[:500])

    def _note(self, knobs: set[str]) -> None:
        if knobs == self._begun:
            return
        self._begun = knobs
        self.problem = None
        try:
            self._file.save(msgspec.json.encode(_Begun(self._boot, sorted(knobs))))
        except OSError as error:
            self.problem = Problem(field="doers", message=f"what is done cannot be kept: {error}"[:300])
