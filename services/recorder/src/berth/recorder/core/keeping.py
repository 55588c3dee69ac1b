"""Which segments stay: the newest ones that have room together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

SEGMENTS_MIN: Final = 8
"""The limit is about so many segments, so that little is lost when the oldest goes."""
_NAME: Final = re.compile(r"berth-(\d{10})\.rec")


class File(NamedTuple):
    """A file of the folder, and its size in bytes."""

    name: str
    size: int


def number_of(name: str) -> int | None:
    """The number of a segment, by the name of its file; None: it is none."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def name_of(number: int) -> str:
    """The file of a segment."""
    return f"berth-{number:010d}.rec"


def segments(files: Iterable[File]) -> list[File]:
    """Those files that are segments, oldest first."""
    return sorted((each for each in files if number_of(each.name) is not None), key=lambda each: each.name)


def next_name(files: Iterable[File]) -> str:
    """The file of a segment that comes after all of these."""
    listed = segments(files)
    return name_of((number_of(listed[-1].name) or 0) + 1 if listed else 1)


def to_delete(files: Sequence[File], bytes_max: int) -> list[str]:
    """The oldest segments that have to go, so that all take at most so many bytes; the newest one stays."""
    listed = segments(files)
    over, found = sum(each.size for each in listed) - bytes_max, []
    for each in listed[:-1]:
        if over <= 0:
            break
        found.append(each.name)
        over -= each.size
    return found


def is_full(size: int, checkpoint: int, bytes_max: int) -> bool:
    """Whether a segment is followed by the next one: not before it holds as much again as its checkpoint."""
    return size >= max(bytes_max // SEGMENTS_MIN, 2 * checkpoint)
