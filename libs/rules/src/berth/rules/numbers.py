"""Integers and lists as annotations write them.

Kubernetes and Koordinator read such text with Go's parsers. Python's `int` is more generous (blanks, underscores,
other scripts' digits), so text that Go refuses would mean something here and nothing there. These functions accept
what Go accepts and nothing else.
"""

import re
from typing import Final

TEXT_LENGTH_MAX: Final = 64

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def parse_integer(text: str, *, bits: int = 64) -> int | None:
    """The decimal integer that `text` is, or None when it is none or does not fit that many bits, signed."""
    if len(text) > TEXT_LENGTH_MAX or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    limit = 1 << (bits - 1)
    return number if -limit <= number < limit else None
