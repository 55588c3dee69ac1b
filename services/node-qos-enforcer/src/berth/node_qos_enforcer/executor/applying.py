"""Brings the node's files to what strategies want, and undoes what nobody wants any more.

Every file that a strategy wants is in the journal before it is first written to. What is in the journal and not wanted
is undone, unless a strategy that may set the knob has not decided yet. Blocking.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.node_qos_enforcer import cgroups, figures
from berth.node_qos_enforcer.core.cgroup_files import Version
from berth.node_qos_enforcer.core.compose import Composed
from berth.node_qos_enforcer.core.contests import Contests
from berth.node_qos_enforcer.core.journal import Kept
from berth.node_qos_enforcer.core.knob_texts import MAX, number_value, problem_of
from berth.node_qos_enforcer.core.laws.memory import NO_LIMIT, high_step
from berth.node_qos_enforcer.core.levels import Change, Step, steps
from berth.node_qos_enforcer.core.malformed import Malformed, counter
from berth.node_qos_enforcer.core.strategies.knobs import CPU_IDLE, CPU_SHARES, KNOBS, MEMORY_HIGH, OOM_SCORE, Knob
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.executor.due import Due, Place, place_of
from berth.node_qos_enforcer.executor.writing import GONE, Executor, First
from berth.node_qos_enforcer.files import Unreadable
from berth.node_qos_enforcer.kept_files import KeptFiles

FORGET_ROUNDS: Final = 600
"""After so many rounds the paths of files that are gone are forgotten."""
PERIOD_V1: Final = "cpu.cfs_period_us"
IN_USE: Final[Mapping[Version, str]] = {1: "memory.usage_in_bytes", 2: "memory.current"}
ATTEMPTS: Final = 3
"""How often is tried again what a group that appeared meanwhile stands in the way of."""
PROBLEMS_MAX: Final = 50
_IN_PARTS: Final = frozenset({"ids", "line", "word"})
"""Kinds of files of which several values are written, each by itself."""


class Applied(NamedTuple):
    """What a round came to."""

    written: int = 0
    problems: tuple[Problem, ...] = ()
    lacking: frozenset[str] = frozenset()
    """Knobs that were wanted and that this kernel does not have."""


class Applier:
    """One node's files, as strategies want them."""

    def __init__(self, executor: Executor, knobs: Mapping[str, Knob] = KNOBS, kept: KeptFiles | None = None) -> None:
        """Take who writes, what may be written, and the control groups whose files stay open; None: none do."""
        self.executor = executor
        self.kept = kept
        self._read_again = executor.read if kept is None else kept.read
        self._knobs = knobs
        self._contests = Contests()
        self._due = Due()
        self._places: dict[Ref, Place | None] = {}
        self._seen: dict[Ref, tuple[str, str]] = {}
        """The value that a file was to have, and its text, when it was found to have it."""
        self._layout: cgroups.Layout | None = None
        self._applied: cgroups.Layout | None = None
        self._rounds = 0
        self._undecided: Set[str] = frozenset()
        self._is_all_undone = False

    def found(self, layout: cgroups.Layout, refs: Iterable[Ref]) -> dict[Ref, str]:
        """What files have; those that are not there, or cannot be read, are left out."""
        found: dict[Ref, str] = {}
        texts: dict[str, str | None] = {}
        places = self._places_in(layout)
        for ref in refs:
            place = places[ref] if ref in places else self.place(layout, ref)
            if place is None:
                continue
            path = place.path
            if path not in texts:
                try:
                    text = self._read_again(path) if place.is_kept else self.executor.read(path)
                    texts[path] = None if text is None else text.strip()
                except Unreadable:
                    texts[path] = None
            text = texts[path]
            if text is not None:
                found[ref] = text
        return found

    def place(self, layout: cgroups.Layout, ref: Ref) -> Place | None:
        """Where a file is; None: this machine has none of this kind."""
        places = self._places_in(layout)
        if ref not in places:
            found = self._find(layout, ref)
            places[ref] = found
        return places[ref]

    def _places_in(self, layout: cgroups.Layout) -> dict[Ref, Place | None]:
        if self._layout != layout:
            self._layout, self._places = layout, {}
        return self._places

    def _find(self, layout: cgroups.Layout, ref: Ref) -> Place | None:
        knob = self._knobs[ref.knob]
        if knob.root != "cgroup":
            path = "/".join(step for step in (f"@{knob.root}", ref.group, knob.v2) if step)
            return place_of(ref, knob, path, 2, path.rpartition("/")[0])
        where = layout.controller(knob.controller)
        file = "" if where is None else knob.v1 if where.version == 1 else knob.v2
        if where is None or not file:
            return None
        return place_of(ref, knob, where.path(ref.group, file), where.version, where.path(ref.group))

    def apply(
        self,
        layout: cgroups.Layout,
        wanted: Composed,
        *,
        asked: Callable[[Ref], str | None],
        undecided: Set[str],
        now_s: float,
        touched: Set[Ref] | None = None,
    ) -> Applied:
        """One round.

        Args:
            layout: where controllers are.
            wanted: what files are to have.
            asked: what the specification asks for of a file that nobody wants any more.
            undecided: knobs of strategies that have not decided yet: nothing of theirs is undone.
            now_s: monotonic.
            touched: of which files it is news; None: of all.
        """
        self._rounds += 1
        if self._rounds % FORGET_ROUNDS == 0:
            self._places.clear()
            self._seen.clear()
        if self._applied != layout:
            self._applied, touched = layout, None
            self._seen.clear()
        problems: list[Problem] = list(wanted.problems)
        due = self._due
        is_other = due.take(wanted, touched, lambda ref: self.place(layout, ref))
        changes, firsts = self._changes(layout, wanted, problems, now_s)
        undone = _NOTHING
        if is_other or not self._is_all_undone or undecided != self._undecided or due.is_full_turn:
            undone = self._undone(layout, due.paths, due.keys(wanted), asked, undecided)
            self._contests.keep_only(due.paths.keys())
        self._undecided = undecided
        self.executor.note(firsts)
        written = self._write([*changes, *undone.changes], problems)
        given_back = self.executor.undo(lambda kept: kept.path in undone.whole) if undone.whole else ()
        self._forget(undone, problems)
        problems += [*given_back, *self._contests.problems()]
        self._is_all_undone = not undone.changes and not undone.whole
        return Applied(written + len(undone.whole), tuple(problems[:PROBLEMS_MAX]), due.lacking)

    def _changes(
        self, layout: cgroups.Layout, wanted: Composed, problems: list[Problem], now_s: float
    ) -> tuple[list[Change], list[First]]:
        """What differs of the files that are due, and what has to be in the journal for it."""
        changes: list[Change] = []
        firsts: list[First] = []
        due, values, places = self._due, wanted.values, self._places_in(layout)
        for ref in due.refs():
            value, place = values[ref], places[ref] if ref in places else self.place(layout, ref)
            if place is not None and due.is_settled(ref) and self._is_as_seen(ref, value, place):
                continue
            due.unsettle(ref)
            if place is None:
                continue
            knob = self._knobs[ref.knob]
            refused = problem_of(knob, value)
            if refused is not None:
                problems.append(Problem(field=place.path, message=refused.message))
                continue
            try:
                change = self._change(ref, knob, place, value)
                if change is None:
                    self._contests.forget(place.path)
                    # A group may have vanished, and a process; a folder of the kernel's is there or never.
                    is_setting = knob.root in ("proc", "sys") and knob.kind in ("number", "word")
                    if (is_setting and knob.name != OOM_SCORE) or (
                        self.executor.folder(place.path) is not None and knob.kind != "ids"
                    ):
                        due.lacks(ref)
                    continue
                if change.is_done and self._contests.agrees(place.path, change.now):
                    due.settle(ref)
                    if not change.period and knob.kind != "folder":
                        self._seen[ref] = (value, change.now)
                    continue
                is_left = knob.kind not in _IN_PARTS and self._contests.is_left(
                    place.path, self.executor.folder(place.path), change.now, now_s
                )
                if is_left or change.is_done:
                    due.settle(ref)
                    continue
                change = self._next_step(change, place)
                if change.is_step and change.is_done:
                    continue
            except (Malformed, Unreadable) as error:
                problems.append(Problem(field=place.path, message=str(error)[:300]))
                continue
            changes.append(change)
            if ref.knob == CPU_IDLE and (weight := self.place(layout, Ref(ref.group, CPU_SHARES))) is not None:
                # The kernel forgets the weight of a group that is idle, and gives it the usual one after that. It is in
                # the journal before the switch, so that it is given back after it.
                firsts.append(First(weight.path, CPU_SHARES))
            if knob.kind != "ids":
                firsts.append(_first(change))
        return changes, firsts

    def _is_as_seen(self, ref: Ref, value: str, place: Place) -> bool:
        """Whether the file still has the text that was found to be the value."""
        seen = self._seen.get(ref)
        if seen is None or seen[0] != value:
            return False
        try:
            text = self.executor.read(place.path)
        except Unreadable:
            return False
        return text is not None and text.strip() == seen[1]

    def _change(self, ref: Ref, knob: Knob, place: Place, value: str) -> Change | None:
        """What there is and what is wanted; None: there is no such file."""
        if knob.kind == "folder":
            there = self.executor.folder(f"{place.path}/.") is not None
            return Change(ref, knob, place.version, place.path, value if there else "", value)
        now = self.executor.read(place.path)
        if now is None and knob.root == "host" and knob.kind == "text":
            now = ""
        if now is None:
            return None
        period = ""
        if knob.kind == "quota" and place.version == 1:
            period = self.executor.read(f"{place.folder}/{PERIOD_V1}") or ""
        return Change(ref, knob, place.version, place.path, now.strip(), value, period)

    def _next_step(self, change: Change, place: Place) -> Change:
        """The change itself, or one on the way to it: a container is not slowed all at once."""
        if change.knob.name != MEMORY_HIGH or change.value == MAX:
            return change
        text = self.executor.read(f"{place.folder}/{IN_USE[place.version]}")
        if text is None:
            return change
        now = number_value(change.now, change.knob.name)
        wanted, in_use = int(change.value), counter(change.path, "in use", text.strip())
        step = high_step(wanted, in_use, NO_LIMIT if now == MAX else int(now))
        return change if step == wanted else change._replace(value=str(step), is_step=True)

    def _write(self, changes: list[Change], problems: list[Problem]) -> int:
        """Write in levels; what is refused is tried again once others are written, since it may not have fitted."""
        left, written = changes, 0
        for attempt in range(ATTEMPTS):
            refused: list[tuple[Change, Problem]] = []
            stuck: set[str] = set()
            for step in steps(left):
                if step.change.path in stuck and not step.is_last:
                    continue
                problem = self._step(step)
                if problem is None:
                    written += 1
                    figures.WRITES.labels(step.change.knob.name, "written").inc()
                elif step.is_last:
                    refused.append((step.change, problem))
                else:
                    stuck.add(step.change.path)
            if not refused or len(refused) == len(left) or attempt == ATTEMPTS - 1:
                break
            left = [self._anew(change) for change, _ in refused]
        for change, problem in refused:
            figures.WRITES.labels(change.knob.name, "refused").inc()
            problems.append(problem)
        return written

    def _anew(self, change: Change) -> Change:
        try:
            return change._replace(now=(self.executor.read(change.path) or change.now).strip())
        except Unreadable:
            return change

    def _step(self, step: Step) -> Problem | None:
        """One write. A group that has vanished is nothing special."""
        change = step.change
        try:
            if change.knob.kind == "folder":
                self.executor.make(change.path)
                return None
            if change.knob.kind == "ids":
                return self._ids(change)
            self.executor.put(change.path, step.text)
            if step.is_last:
                self._contests.wrote(change.path, (self.executor.read(change.path) or "").strip())
                if not change.is_step:
                    self._due.settle(change.ref)
        except (OSError, Unreadable) as error:
            if isinstance(error, OSError) and error.errno in GONE:
                return None
            return Problem(field=change.path, message=_sentence(error))
        return None

    def _ids(self, change: Change) -> Problem | None:
        """Each id by itself; one that is gone is nothing special."""
        there = set(change.now.split())
        for each in change.value.split():
            if each in there:
                continue
            try:
                self.executor.put(change.path, each)
            except (OSError, Unreadable) as error:
                if not (isinstance(error, OSError) and error.errno in GONE):
                    return Problem(field=change.path, message=_sentence(error))
        return None

    def _undone(
        self,
        layout: cgroups.Layout,
        paths: Mapping[str, Ref],
        keys: Mapping[tuple[str, str], Set[str]],
        asked: Callable[[Ref], str | None],
        undecided: Set[str],
    ) -> _Undone:
        """What is in the journal and nobody wants: by what the specification asks for, else by what was there."""
        changes: list[Change] = []
        whole: set[str] = set()
        for kept in self.executor.kept:
            if not kept.knob or kept.knob in undecided or kept.knob not in self._knobs:
                continue
            knob = self._knobs[kept.knob]
            if (ref := paths.get(kept.path)) is not None:
                if knob.kind in ("line", "word"):
                    changes += self._parts_back(kept, knob, ref, keys.get((ref.group, ref.knob), frozenset()))
                continue
            change = self._asked_for(layout, kept, knob, asked)
            if change is None:
                whole.add(kept.path)
            else:
                changes.append(change)
        return _Undone(changes, whole)

    def _parts_back(self, kept: Kept, knob: Knob, ref: Ref, keys: Set[str]) -> list[Change]:
        """Lines or words of a file that nobody wants any more, while others of it are wanted."""
        try:
            now = (self.executor.read(kept.path) or "").strip()
        except Unreadable:
            return []
        if knob.kind == "word":
            had = {word: word.removeprefix("NO_") for word in kept.text.split() if word not in now.split()}
        else:
            before = dict(line.partition(" ")[::2] for line in kept.text.splitlines())
            there = dict(line.partition(" ")[::2] for line in now.splitlines())
            had = {key: before.get(key, kept.none) for key in there.keys() | before.keys()}
            had = {key: value for key, value in had.items() if there.get(key, kept.none) != value}
        found = []
        for name, value in sorted(had.items()):
            key, text = (value, name) if knob.kind == "word" else (name, value)
            if key not in keys:
                found.append(Change(ref._replace(key=key), knob, 2, kept.path, now, text))
        return found

    def _asked_for(
        self, layout: cgroups.Layout, kept: Kept, knob: Knob, asked: Callable[[Ref], str | None]
    ) -> Change | None:
        """The change to what is asked for now; None: what was found is to be put back."""
        where = layout.controller(knob.controller) if knob.root == "cgroup" else None
        if where is None or knob.kind not in ("quota", "cpus", "number", "weight"):
            return None
        folder = kept.path.rpartition("/")[0]
        group = folder.removeprefix(f"{where.root}/") if where.root else folder
        ref = Ref(group, knob.name)
        value = asked(ref)
        if value is None:
            return None
        try:
            change = self._change(ref, knob, Place(kept.path, where.version, folder), value)
            if change is None or self.executor.folder(kept.path) != kept.folder:
                return None
            return None if change._replace(now=kept.text).is_done else change
        except (Malformed, Unreadable):
            return None

    def _forget(self, undone: _Undone, problems: list[Problem]) -> None:
        refused = {each.field for each in problems}
        done = {each.path for each in undone.changes if each.path not in refused and not each.ref.key}
        if done:
            self.executor.forget(lambda path: path in done)
        for path in (*done, *undone.whole):
            self._contests.forget(path)


class _Undone(NamedTuple):
    changes: list[Change]
    whole: set[str]


_NOTHING: Final = _Undone([], set())


def _first(change: Change) -> First:
    knob = change.knob
    if knob.kind == "folder":
        return First(change.path, knob.name, "folder")
    if knob.root == "host" and not change.now:
        return First(change.path, knob.name, "made")
    if knob.kind == "line":
        return First(change.path, knob.name, "lines", knob.default or "")
    return First(change.path, knob.name, "words" if knob.kind == "word" else "whole")


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        reason = errno.errorcode.get(error.errno or 0, str(error))
        is_denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        hint = "; writing needs root and a control-group root that is not mounted read-only" if is_denied else ""
        return f"cannot be written: {reason}{hint}"
    return str(error)[:300]
