"""The one way in which a parser of this package says no.

Kernel files are input like any other: a line may be torn, a number absurd, a key missing. A parser raises
`Malformed`, which names the file and what was wrong with it; the reader of the file turns that into a problem of the
sample and goes on with the rest.
"""

from __future__ import annotations

MAX_QUOTED = 60


class Malformed(ValueError):  # noqa: N818 - the name is the finding
    """A text does not have the form its file promises."""

    def __init__(self, file: str, reason: str) -> None:
        """Name the file (or the kind of file) and the reason."""
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason


def quoted(text: str) -> str:
    """Return the text for a message: printable, and never longer than a line."""
    return repr(text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "...")


MAX_COUNTER = 2**64 - 1
"""Kernel counters are unsigned 64 bit; anything above is not one."""


def counter(file: str, field: str, text: str) -> int:
    """Parse an unsigned 64 bit number in decimal digits.

    Raises:
        Malformed: for signs, blanks, other digits than 0-9, or a number that no kernel counter can hold.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > 20:
        raise Malformed(file, f"{field} is not a number: {quoted(text)}")
    number = int(text)
    if number > MAX_COUNTER:
        raise Malformed(file, f"{field} does not fit 64 bits: {quoted(text)}")
    return number
