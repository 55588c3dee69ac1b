"""Files that others write to as well: after three rounds of it they are theirs, for a while, and it is said.

Kubelet and systemd put their own values back now and then; whoever writes against them makes a file flap. Three
differences within five minutes are such a contest.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from berth.contracts.base import Problem

ROUNDS: Final = 3
WITHIN_S: Final = 300.0
LEFT_S: Final = 600.0
"""For so long a file is left alone before it is tried again."""


class Contests:
    """What was written last, by path, and how often somebody else has changed it since."""

    def __init__(self) -> None:
        """Nobody contests anything."""
        self._written: dict[str, str] = {}
        self._folders: dict[str, int | None] = {}
        self._lost_s: dict[str, list[float]] = {}
        self._left_s: dict[str, float] = {}

    def agrees(self, path: str, now_text: str) -> bool:
        """Whether a file that has what it is to have is nobody else's: nothing of it changes then. Of which folder it
        is matters once something has."""
        return path not in self._left_s and self._written.get(path, now_text) == now_text

    def is_left(self, path: str, folder: int | None, now_text: str, now_s: float) -> bool:
        """Whether a file is to be left alone, by what it has now. Call it once a round for each file that is looked
        at. In a folder that was made anew it is another file, which nobody has changed yet."""
        if self._folders.get(path) != folder:
            self.forget(path)
            self._folders[path] = folder
        left_s = self._left_s.get(path)
        if left_s is not None:
            if now_s - left_s < LEFT_S:
                return True
            del self._left_s[path]
            self._written.pop(path, None)
        written = self._written.get(path)
        if written is None or written == now_text:
            return False
        lost = [at_s for at_s in self._lost_s.get(path, ()) if now_s - at_s < WITHIN_S]
        lost.append(now_s)
        self._lost_s[path] = lost
        del self._written[path]
        if len(lost) < ROUNDS:
            return False
        del self._lost_s[path]
        self._left_s[path] = now_s
        return True

    def wrote(self, path: str, text: str) -> None:
        """What the kernel shows of a file right after it was written."""
        self._written[path] = text

    def forget(self, path: str) -> None:
        """It is not written any more."""
        self._written.pop(path, None)
        self._lost_s.pop(path, None)
        self._left_s.pop(path, None)
        self._folders.pop(path, None)

    def keep_only(self, paths: Set[str]) -> None:
        """Forget files that are not wanted any more."""
        for path in self._folders.keys() - paths:
            self.forget(path)

    def problems(self) -> tuple[Problem, ...]:
        """The files that are left alone."""
        return tuple(
            Problem(field=path, message=f"somebody else keeps changing it; left alone for {LEFT_S / 60:.0f} minutes")
            for path in self._left_s
        )
