"""What a Reservation that a schedule has made says of its window, in an annotation that cluster-writer alone writes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from berth.contracts import names
from berth.rules.bounded_json import read_annotation


class WindowNote(msgspec.Struct, frozen=True, kw_only=True):
    """For which window of which schedule it was made, times in RFC 3339, UTC; and whom it may make leave."""

    schedule: str = ""
    uid: str = ""
    start: str = ""
    end: str = ""
    displaces: str = ""


def window_of(annotations: Mapping[str, str]) -> WindowNote | None:
    """The window that a Reservation was made for; None for one that no schedule made."""
    read = read_annotation(annotations, names.ANNOTATION_WINDOW, WindowNote)
    return read if isinstance(read, WindowNote) else None
