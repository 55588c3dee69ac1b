"""The one place that writes to files of the kernel, with a journal of what they had before.

What a file had is on disk before the file is written to: a process that follows, or one that is to give
everything back, finds it there. Blocking, and safe to be called from several threads.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from threading import RLock
from typing import Final

from berth.contracts.base import Problem
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.core.journal import FIELD, Journal, Kept, decode, encode
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.store import JournalFile

GONE: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH})
"""What a write fails with whose group has vanished."""
PRUNE_FROM: Final = 1_000
"""From so many entries on, those of vanished groups are dropped before more are added."""
NOWHERE: Final = JournalFile("")


class Executor:
    """Writes to files below one root, and gives them back."""

    def __init__(self, tree: DiskTree, file: JournalFile = NOWHERE, *, boot: str = "") -> None:
        """Take the root, where the journal is kept, and what identifies this boot."""
        self.tree = tree
        self._file = file
        self._boot = boot
        self._lock = RLock()
        self._journal = Journal()
        self._prune_at = PRUNE_FROM
        self.problem: Problem | None = None

    def problems(self) -> tuple[Problem, ...]:
        """Why the journal could not be read or kept, if it could not."""
        return () if self.problem is None else (self.problem,)

    def load(self) -> None:
        """Take up the journal of a former process. One that cannot be read counts as none, and is named."""
        with self._lock:
            try:
                data = self._file.load()
            except OSError as error:
                self.problem = _problem(f"cannot be read: {_reason(error)}")
                return
            read = Journal() if data is None else decode(data, self._boot)
            if isinstance(read, Problem):
                self.problem = read
                return
            self._journal = read
            self._prune()
            figures.JOURNAL.set(len(read))

    def is_kept(self, is_meant: Callable[[str], bool]) -> bool:
        """Whether a file with such a path was written to and not given back."""
        with self._lock:
            return any(is_meant(each.path) for each in self._journal)

    def note(self, paths: Iterable[str]) -> None:
        """Keep what these files have now, all at once. A journal that cannot be stored is named; work goes on."""
        with self._lock:
            before = len(self._journal)
            if before >= self._prune_at:
                self._prune()
                self._prune_at = max(PRUNE_FROM, 2 * len(self._journal))
            is_new = False
            for path in paths:
                folder = self.tree.incarnation(_folder(path))
                if folder is None or self._journal.has(path, folder):
                    continue
                text = self.tree.read(path)
                if text is not None:
                    self._journal.note(Kept(path, text.strip(), folder))
                    is_new = True
            if is_new:
                self._store()

    def write(self, path: str, text: str) -> None:
        """Write one file. Raises OSError, Unreadable; a link is not followed."""
        with self._lock:
            self.note([path])
            self._put(path, text)

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """Files with such paths have been given back by other means."""
        with self._lock:
            if self._journal.forget(lambda each: is_meant(each.path)):
                self._store()

    def undo(self) -> tuple[Problem, ...]:
        """Give every file back what it had. Returns which could not be; they stay in the journal.

        On version 1 a group fits within the one above only in the right order: whatever is refused is tried again as
        long as anything else succeeds.
        """
        with self._lock:
            refused: dict[str, str] = {}
            left = self._journal.undo()
            while left:
                refused = {}
                for each in left:
                    reason = self._give_back(each)
                    if reason:
                        refused[each.path] = reason
                if len(refused) == len(left):
                    break
                left = tuple(each for each in left if each.path in refused)
            self._journal.forget(lambda each: each.path not in refused)
            self._store()
            return tuple(
                Problem(field=path, message=f"cannot be given back: {reason}") for path, reason in refused.items()
            )

    def _give_back(self, kept: Kept) -> str:
        """Why it could not be; empty when it was, or when there is nothing to give back to."""
        try:
            if self.tree.incarnation(_folder(kept.path)) != kept.folder:
                return ""
            now = self.tree.read(kept.path)
            if now is not None and now.strip() != kept.text:
                self._put(kept.path, kept.text)
        except Unreadable as error:
            return error.reason
        except OSError as error:
            return "" if error.errno in GONE else _reason(error)
        return ""

    def _put(self, path: str, text: str) -> None:
        descriptor = os.open(
            self.tree.root / path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        )
        try:
            os.write(descriptor, f"{text}\n".encode())
        finally:
            os.close(descriptor)

    def _prune(self) -> None:
        self._journal.forget(lambda each: self.tree.incarnation(_folder(each.path)) != each.folder)

    def _store(self) -> None:
        figures.JOURNAL.set(len(self._journal))
        try:
            self._file.save(encode(self._journal, self._boot))
        except OSError as error:
            self.problem = _problem(f"cannot be kept: {_reason(error)}")
        else:
            self.problem = None


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _problem(message: str) -> Problem:
    return Problem(field=FIELD, message=message)


def _reason(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))
