"""What simulated processes log, with virtual time: the newest lines in a ring, nothing on the terminal."""

from __future__ import annotations

import contextlib
import traceback
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Self

from berth.telemetry.capture import Line, captured_logs
from berth.telemetry.logs import Level
from berth.testing.simulation.world import World, current_process_name

LINES_MAX: Final = 20_000
ERRORS_MAX: Final = 1_000


class Entry(NamedTuple):
    """One line: when, which incarnation of which process (empty: outside of all), and what."""

    at_s: float
    process: str
    line: Line

    def __str__(self) -> str:
        """For people."""
        fields = dict(self.line.fields)
        error = fields.pop("exc_info", None)
        text = " ".join(f"{name}={value!r}" for name, value in fields.items())
        shown = f"{self.at_s:10.4f} {self.process:<24} {self.line.level:<7} {self.line.message} {text}".rstrip()
        if isinstance(error, BaseException):
            shown += "\n" + "".join(traceback.format_exception(error)).rstrip()
        return shown


class Journal:
    """Takes all logging of this interpreter for the length of a `with` block. `counts`: which errors are kept."""

    def __init__(
        self,
        world: World,
        level: Level = "info",
        *,
        lines_max: int = LINES_MAX,
        counts: Callable[[Entry], bool] = lambda _: True,
    ) -> None:
        self.entries: deque[Entry] = deque(maxlen=lines_max)
        self.errors: list[Entry] = []
        """The first lines of level error or above that count, which the ring may have lost."""
        self._world = world
        self._level: Level = level
        self._counts = counts
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(captured_logs(self._take, self._level))
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stack.close()

    def note(self, message: str, **fields: object) -> None:
        """A line of the simulation itself: who was killed, which fault begins."""
        self._take(Line("note", "simulation", message, fields))

    def about(self, *words: str) -> list[str]:
        """The lines that name any of these words (objects, processes), oldest first; without words all."""
        shown = (str(entry) for entry in self.entries)
        return [text for text in shown if not words or any(word in text for word in words)]

    def _take(self, line: Line) -> None:
        entry = Entry(self._world.now, current_process_name(), line)
        self.entries.append(entry)
        is_error = line.level in ("error", "critical")
        if is_error and len(self.errors) < ERRORS_MAX and self._counts(entry):
            self.errors.append(entry)
