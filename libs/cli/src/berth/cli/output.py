"""How text reaches people: at most 100 columns, colours only where they are welcome, plain lines when piped."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from rich.console import Console
from rich.text import Text

WIDTH_MAX = 100
PIPED_WIDTH = 65_536
ALIGNED_MAX = 60
"""A longer cell is not aligned to: one long name does not push all others out of sight."""
_COLOURS = {"green": 32, "red": 31, "yellow": 33, "dim": 2}


def is_live(stream: IO[Any] | None = None) -> bool:
    """Whether lines may be redrawn: a terminal, and not in CI."""
    out = stream or sys.stdout
    return out.isatty() and not os.environ.get("CI") and os.environ.get("TERM", "") != "dumb"


def width() -> int:
    """Columns that an answer may take: those of the terminal, at most 100; a pipe takes lines of any length."""
    if not sys.stdout.isatty():
        return PIPED_WIDTH
    return max(40, min(WIDTH_MAX, shutil.get_terminal_size((WIDTH_MAX, 24)).columns))


@contextmanager
def notice_unread(hook: Callable[[], object]) -> Iterator[None]:
    """Call the hook when nobody reads our output any more (`berth watch | head`), also while there is nothing to print.

    Only a pipe shows it: the system reports its closed end to who waits for input there, and no input ever comes.
    """
    loop, output = asyncio.get_running_loop(), _pipe()
    if output is None:
        yield
        return

    def closed() -> None:
        loop.remove_reader(output)
        hook()

    loop.add_reader(output, closed)
    try:
        yield
    finally:
        loop.remove_reader(output)


def _pipe() -> int | None:
    """The pipe that our output goes to, if it is one."""
    try:
        output = sys.stdout.fileno()
        return output if stat.S_ISFIFO(os.fstat(output).st_mode) else None
    except OSError:  # no file at all
        return None


def painted(text: str, colour: str) -> str:
    """The text in a colour (`green`, `red`, `yellow`, `dim`) where colours are welcome, else unchanged."""
    if not is_live() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def columns(
    rows: Iterable[Sequence[str]], *, indent: str = "", gap: str = "  ", right: Sequence[int] = ()
) -> list[str]:
    """Rows as lines with aligned columns; those in `right` are aligned to the right. Long cells stand out."""
    table = [list(row) for row in rows]
    if not table:
        return []
    widths = [
        max((len(row[i]) for row in table if i < len(row) and len(row[i]) <= ALIGNED_MAX), default=0)
        for i in range(max(map(len, table)))
    ]
    lines = []
    for row in table:
        cells = [
            cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) if i < len(row) - 1 else cell
            for i, cell in enumerate(row)
        ]
        lines.append((indent + gap.join(cells)).rstrip())
    return lines


def fitted(text: str, width: int = WIDTH_MAX) -> str:
    """One line, cut with an ellipsis when it is too long; control characters of strangers are made visible."""
    clean = "".join(char if char.isprintable() else "?" for char in text)
    return clean if len(clean) <= width else clean[: width - 1] + "…"


def wrapped(text: str, *, indent: str, width: int = WIDTH_MAX, lines_max: int = 6) -> list[str]:
    """A text as several indented lines."""
    clean = "".join(char if char.isprintable() else "?" for char in text)
    width_left = width - len(indent)
    lines = [str(line).rstrip() for line in Text(clean).wrap(Console(width=width_left, color_system=None), width_left)]
    if len(lines) > lines_max:
        lines = [*lines[: lines_max - 1], fitted(lines[lines_max - 1] + " …", width_left)]
    return [indent + line for line in lines]
