"""What a Reservation that a schedule has made says of its window, in an annotation that cluster-writer alone writes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from berth.contracts import names
from berth.rules.bounded_json import read_annotation
from berth.rules.times import unix_of


class WindowNote(msgspec.Struct, frozen=True, kw_only=True):
    """For which window of which schedule it was made, times in RFC 3339, UTC; whom it may make leave; and how many
    seconds before the start its capacity is held."""

    schedule: str = ""
    uid: str = ""
    start: str = ""
    end: str = ""
    displaces: str = ""
    lead_s: float = 0.0


def held_hours(note: WindowNote) -> float:
    """For how long capacity is held for the window, its lead included; 0 where its times cannot be read."""
    start, end = unix_of(note.start), unix_of(note.end)
    return (end - start + note.lead_s) / 3600 if start is not None and end is not None else 0.0


def window_of(annotations: Mapping[str, str]) -> WindowNote | None:
    """The window that a Reservation was made for; None for one that no schedule made."""
    read = read_annotation(annotations, names.ANNOTATION_WINDOW, WindowNote)
    return read if isinstance(read, WindowNote) else None
