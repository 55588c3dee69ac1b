"""The one place that writes to files of the kernel, with a journal of what they had before.

What a file had is on disk before the file is written to: a process that follows, or one that is to give
everything back, finds it there. Blocking, and safe to be called from several threads.

Paths are below the root of control groups; those that begin with `@proc/`, `@sys/` or `@host/` are below that root.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import RLock
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.core.journal import FIELD, Journal, Kept, Manner, decode, encode, salvage
from berth.node_qos_enforcer.executor.trail import Trail
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.store import JournalFile

GONE: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH})
"""What a write fails with whose group has vanished."""
PRUNE_FROM: Final = 1_000
"""From so many entries on, those of vanished groups are dropped before more are added."""
NOWHERE: Final = JournalFile("")
FILE_MODE: Final = 0o644
FOLDER_MODE: Final = 0o755
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
ELSEWHERE: Final = "@"
"""What a path begins with that is not below the root of control groups."""


class First(NamedTuple):
    """A file that is about to be written to: of which knob it is, and how it is given back (`Kept.manner`)."""

    path: str
    knob: str = ""
    manner: Manner = "whole"
    none: str = ""


class Executor:
    """Writes to files below a root, and gives them back."""

    def __init__(
        self,
        tree: DiskTree,
        file: JournalFile = NOWHERE,
        *,
        boot: str = "",
        elsewhere: Mapping[str, DiskTree] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Take the root of control groups, where the journal is kept, what identifies this boot, other roots, and the
        time for the trail."""
        self.tree = tree
        self._elsewhere = elsewhere or {}
        self._file = file
        self._boot = boot
        self._lock = RLock()
        self._journal = Journal()
        self._prune_at = PRUNE_FROM
        self.problem: Problem | None = None
        self._aside: Problem | None = None
        self.trail = Trail(now)

    def problems(self) -> tuple[Problem, ...]:
        """Why the journal could not be read or kept, if it could not."""
        return tuple(each for each in (self._aside, self.problem) if each is not None)

    def load(self) -> None:
        """Take up the journal of a former process. Of one that cannot be read as a whole that which can be counts; it
        is kept aside, and named for as long as this process runs."""
        with self._lock:
            try:
                data = self._file.load()
            except OSError as error:
                self._keep_aside(_problem(f"cannot be read: {_reason(error)}"), Journal())
                return
            read = Journal() if data is None else decode(data, self._boot)
            if isinstance(read, Problem):
                read = self._keep_aside(read, salvage(data or b"", self._boot))
            self._journal = read
            self._prune()
            figures.JOURNAL.set(len(read))

    def is_kept(self, is_meant: Callable[[str], bool]) -> bool:
        """Whether a file with such a path was written to and not given back."""
        with self._lock:
            return any(is_meant(each.path) for each in self._journal)

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What was written to and not given back, in the order of first writes."""
        with self._lock:
            return tuple(self._journal)

    def read(self, path: str) -> str | None:
        """The text of a file; None: it is not there. Raises Unreadable."""
        tree, below = self._at(path)
        return tree.read(below)

    def folder(self, path: str) -> int | None:
        """Which incarnation the folder of a file is; None: it is not there. Raises Unreadable."""
        tree, below = self._at(path)
        return tree.incarnation(_folder(below))

    def note(self, files: Iterable[First]) -> None:
        """Keep what these files have now, all at once. A journal that cannot be stored is named; work goes on."""
        with self._lock:
            before = len(self._journal)
            if before >= self._prune_at:
                self._prune()
                self._prune_at = max(PRUNE_FROM, 2 * len(self._journal))
            is_new = False
            for path, knob, manner, none in files:
                folder = self.folder(path)
                if folder is None or self._journal.has(path, folder):
                    continue
                text = self._text(path, manner)
                if text is not None:
                    self._journal.note(Kept(path, text, folder, knob, manner, none))
                    is_new = True
            if is_new:
                self._store()

    def write(self, path: str, text: str) -> None:
        """Write one file. Raises OSError, Unreadable; a link is not followed."""
        with self._lock:
            self.note([First(path)])
            self._put(path, text)
            self.trail.wrote(path, text)

    def put(self, path: str, text: str) -> None:
        """Write a file that was noted before. Raises OSError, Unreadable."""
        with self._lock:
            self._put(path, text)
            self.trail.wrote(path, text)

    def make(self, path: str) -> None:
        """Make a folder that was noted before. Raises OSError."""
        tree, below = self._at(path)
        with self._lock:
            os.mkdir(tree.root / below, FOLDER_MODE)

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """Files with such paths have been given back by other means."""
        with self._lock:
            if self._journal.forget(lambda each: is_meant(each.path)):
                self._store()

    def undo(self, is_meant: Callable[[Kept], bool] = lambda _: True) -> tuple[Problem, ...]:
        """Give files back what they had, all of them unless some are meant. Returns which could not be; they stay.

        On version 1 a group fits within the one above only in the right order: whatever is refused is tried again as
        long as anything else succeeds.
        """
        with self._lock:
            refused: dict[str, str] = {}
            meant = left = tuple(each for each in self._journal.undo() if is_meant(each))
            while left:
                refused = {}
                for each in left:
                    reason = self._give_back(each)
                    if reason:
                        refused[each.path] = reason
                if len(refused) == len(left):
                    break
                left = tuple(each for each in left if each.path in refused)
            done = {each.path for each in meant if each.path not in refused}
            if self._journal.forget(lambda each: each.path in done):
                self._store()
            return tuple(
                Problem(field=path, message=f"cannot be given back: {reason}") for path, reason in refused.items()
            )

    def _give_back(self, kept: Kept) -> str:
        """Why it could not be; empty when it was, or when there is nothing to give back to."""
        try:
            if self.folder(kept.path) != kept.folder:
                return ""
            if kept.manner in ("made", "folder"):
                self._take_away(kept)
                return ""
            now = self.read(kept.path)
            if now is None or now.strip() == kept.text:
                return ""
            if kept.manner == "lines":
                self._lines_back(kept, now)
            elif kept.manner == "words":
                for word in kept.text.split():
                    if word not in now.split():
                        self._put(kept.path, word)
            else:
                self._put(kept.path, kept.text)
            self.trail.wrote(kept.path, kept.text, undone=True)
        except Unreadable as error:
            return error.reason
        except OSError as error:
            return "" if error.errno in GONE else _reason(error)
        return ""

    def _lines_back(self, kept: Kept, now: str) -> None:
        """Each line by itself; one that was not there before is set to what stands for none."""
        before = dict(line.partition(" ")[::2] for line in kept.text.splitlines())
        there = dict(line.partition(" ")[::2] for line in now.splitlines())
        for key in {**there, **before}:
            if there.get(key) != (value := before.get(key, kept.none)):
                self._put(kept.path, f"{key} {value}".strip())

    def _take_away(self, kept: Kept) -> None:
        tree, below = self._at(kept.path)
        if kept.manner == "folder":
            (tree.root / below).rmdir()
        else:
            (tree.root / below).unlink()
        self.trail.wrote(kept.path, "", undone=True)

    def _text(self, path: str, manner: Manner) -> str | None:
        """What is kept of a file; None: nothing, since it is not ours to give back."""
        text = self.read(path) if manner != "folder" else None
        if manner == "folder":
            tree, below = self._at(path)
            return None if tree.incarnation(below) is not None else ""
        if manner == "made":
            return None if text is not None else ""
        return None if text is None else text.strip()

    def _at(self, path: str) -> tuple[DiskTree, str]:
        if not path.startswith(ELSEWHERE):
            return self.tree, path
        root, _, below = path.removeprefix(ELSEWHERE).partition("/")
        tree = self._elsewhere.get(root)
        if tree is None:
            raise Unreadable(path, "is below no root that is known")
        return tree, below

    def _keep_aside(self, why: Problem, salvaged: Journal) -> Journal:
        """One that can be neither read nor kept aside is left where it is, and nothing is kept from here on."""
        try:
            name = self._file.keep_aside()
        except OSError as error:
            self._file = NOWHERE
            message = f"{why.message}; cannot be kept aside: {_reason(error)}; nothing is kept of what is written"
            self._aside = Problem(field=why.field, message=message[:300])
            return salvaged
        counted = f"{len(salvaged)} of its entries can be read and count"
        self._aside = Problem(field=why.field, message=f"{why.message}; kept as {name}; {counted}"[:500])
        self._journal = salvaged
        self._store()
        return salvaged

    def _put(self, path: str, text: str) -> None:
        tree, below = self._at(path)
        is_hosts = path.startswith(f"{ELSEWHERE}host/")
        flags = os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        if is_hosts:
            descriptor = os.open(tree.root / below, flags | os.O_CREAT, FILE_MODE)
        else:
            descriptor = _open_below(tree.root, below, flags)
        try:
            os.write(descriptor, f"{text}\n".encode())
        finally:
            os.close(descriptor)

    def _prune(self) -> None:
        self._journal.forget(lambda each: self._is_gone(each))

    def _is_gone(self, kept: Kept) -> bool:
        try:
            return self.folder(kept.path) != kept.folder
        except Unreadable:
            return False

    def _store(self) -> None:
        figures.JOURNAL.set(len(self._journal))
        try:
            self._file.save(encode(self._journal, self._boot))
        except OSError as error:
            self.problem = _problem(f"cannot be kept: {_reason(error)}")
        else:
            self.problem = None


def _open_below(root: Path, path: str, flags: int) -> int:
    """Open a file of the kernel by a way on which there is no link, but for the first step: controllers of version 1
    have links beside them. Raises OSError."""
    first, *steps = path.split("/")
    if not steps:
        return os.open(root / first, flags)
    folder = os.open(root / first, _FOLDER)
    try:
        for step in steps[:-1]:
            below = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(steps[-1], flags, dir_fd=folder)
    finally:
        os.close(folder)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _problem(message: str) -> Problem:
    return Problem(field=FIELD, message=message)


def _reason(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))
