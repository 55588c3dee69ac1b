"""The segments of a folder, oldest first, as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from berth.cli.errors import CliError
from berth.recording.frames import Frames
from berth.recording.records import AnyRecord, Began, Whole

PATTERN: Final = "berth-*.rec"


class Head(NamedTuple):
    """The beginning of a segment: which run it belongs to, and from when on it goes."""

    path: Path
    began: Began


class Segment:
    """One file, read once from its beginning. `is_torn` is known when it has been read to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_torn = False

    def records(self) -> Iterator[AnyRecord]:
        """All that is sound; nothing where the checkpoint is not complete. Raises CliError."""
        frames = Frames(_bytes_of(self.path))
        head: list[AnyRecord] = []
        is_whole = False
        for block in frames:
            for record in block:
                if is_whole:
                    yield record
                    continue
                head.append(record)
                if isinstance(record, Whole):
                    is_whole = True
                    yield from head
                    head = []
        self.is_torn = frames.is_torn or not is_whole


def heads(folder: Path) -> list[Head]:
    """The segments that have a beginning, oldest first. Raises CliError where there is none."""
    found = []
    for path in sorted(folder.glob(PATTERN)) if folder.is_dir() else ():
        block = next(iter(Frames(_bytes_of(path))), [])
        if block and isinstance(block[0], Began):
            found.append(Head(path, block[0]))
    if not found:
        raise CliError(f"{folder} holds no segments of recorder")
    return found


def since(listed: Sequence[Head], at_s: float) -> Sequence[Head]:
    """Those that have to be read for what happened from a time on: one more of the run before, since a plan may have
    been made on what was read long before it."""
    first = max((at for at, each in enumerate(listed) if each.began.at_s <= at_s), default=0)
    if first and listed[first - 1].began.run == listed[first].began.run:
        first -= 1
    return listed[first:]


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CliError(f"{path} cannot be read: {error.strerror}") from error
