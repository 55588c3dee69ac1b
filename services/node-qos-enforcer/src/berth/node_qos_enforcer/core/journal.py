"""What files had before the agent wrote to them, so that they can be given back.

A file counts by its path and by the inode of its folder, which no two groups of one boot share in a row: a group that
was removed and made anew is another one, and had nothing before. After a boot nothing is left of former groups.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final, Literal

import msgspec

from berth.contracts.base import Problem

BYTES_MAX: Final = 8 << 20
FIELD: Final = "journal"
_VERSION: Final = 1

_HEAD: Final = re.compile(r'\{"boot":"([^"\\]*)"')
_TAIL: Final = re.compile(r'"version":([0-9]{1,9})\}\s*\Z')
_ENTRY: Final = re.compile(r'\{"path":')
_BROKEN: Final = "\N{REPLACEMENT CHARACTER}"

_Text = Annotated[str, msgspec.Meta(max_length=1 << 16)]


Manner = Literal["whole", "lines", "words", "made", "folder"]
"""How something is given back: its text as a whole; lines or words each written alone; by taking away the file, or the
folder, that was not there."""


class Kept(msgspec.Struct, frozen=True):
    """A file, its text before the first write, and the inode of its folder then.

    `knob` is the one that it was written by; empty: not by a strategy. `none` is what a line is set to that was not
    there before.
    """

    path: _Text
    text: _Text
    folder: int
    knob: _Text = ""
    manner: Manner = "whole"
    none: _Text = ""


class _Document(msgspec.Struct, frozen=True):
    boot: str
    files: list[Kept]
    version: int = _VERSION


class Journal:
    """The files that were written to, in the order of their first writes."""

    def __init__(self, kept: Iterable[Kept] = ()) -> None:
        """Take what was kept before; of several entries of a path the last counts."""
        self._kept = {each.path: each for each in kept}

    def __len__(self) -> int:
        """How many files there are."""
        return len(self._kept)

    def __iter__(self) -> Iterator[Kept]:
        """In the order of their first writes."""
        return iter(tuple(self._kept.values()))

    def has(self, path: str, folder: int) -> bool:
        """Whether it is kept what this very file had before."""
        known = self._kept.get(path)
        return known is not None and known.folder == folder

    def note(self, kept: Kept) -> None:
        """Keep a file's text; one that is kept already stays as it is, unless its folder was another one."""
        if not self.has(kept.path, kept.folder):
            self._kept.pop(kept.path, None)
            self._kept[kept.path] = kept

    def forget(self, is_meant: Callable[[Kept], bool]) -> bool:
        """Keep these files no longer; whether there were any."""
        meant = [each.path for each in self if is_meant(each)]
        for path in meant:
            del self._kept[path]
        return bool(meant)

    def undo(self) -> tuple[Kept, ...]:
        """In the order in which they are given back: the last first, so that a group that was shrunk after the groups
        below it grows before them."""
        return tuple(self)[::-1]


def encode(journal: Journal, boot: str) -> bytes:
    """The journal as it is stored; `boot` identifies the boot whose groups these are."""
    return msgspec.json.encode(_Document(boot, list(journal)))


def salvage(data: bytes, boot: str) -> Journal:
    """Those entries of a damaged journal that can be read; none of another boot, or of another version.

    An entry with a character that stands for a broken one is not whole: its text would be written.
    """
    text = data.decode(errors="replace")
    head = _HEAD.match(text)
    version = _TAIL.search(text)
    if head is None or head[1] != boot or (version is not None and int(version[1]) != _VERSION):
        return Journal()
    found: list[Kept] = []
    decoder = json.JSONDecoder()
    for entry in _ENTRY.finditer(text):
        with contextlib.suppress(ValueError, RecursionError, msgspec.ValidationError):
            raw, end = decoder.raw_decode(text, entry.start())
            if _BROKEN not in text[entry.start() : end]:
                found.append(msgspec.convert(raw, Kept))
    return Journal(found)


def decode(data: bytes, boot: str) -> Journal | Problem:
    """A stored journal; empty when it is of another boot. A problem when it cannot be read."""
    if len(data) > BYTES_MAX:
        return Problem(field=FIELD, message=f"is larger than {BYTES_MAX} bytes")
    try:
        read = msgspec.json.decode(data, type=_Document)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        return Problem(field=FIELD, message=f"is not readable: {error}"[:200])
    if read.version != _VERSION:
        return Problem(field=f"{FIELD}.version", message=f"is {read.version}, not {_VERSION}")
    return Journal(read.files if read.boot == boot else ())
