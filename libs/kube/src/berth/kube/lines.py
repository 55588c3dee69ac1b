"""Lines out of a byte stream: a watch sends one JSON document per line, in pieces of any size."""

from __future__ import annotations


class LineTooLongError(Exception):
    """A line outgrew its limit; the stream cannot be followed further."""


class LineSplitter:
    """Cuts chunks at newlines. A line may be as long as `line_bytes_max`; copying stays linear in the input."""

    def __init__(self, line_bytes_max: int) -> None:
        self._line_bytes_max = line_bytes_max
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their newline; empty lines are dropped.

        Raises LineTooLongError as soon as a line, complete or not, is longer than allowed.
        """
        *ends, rest = chunk.split(b"\n")
        lines = []
        for end in ends:
            line = b"".join((*self._pending, end)) if self._pending else end
            self._pending.clear()
            self._pending_bytes = 0
            self._check(len(line))
            if line and not line.isspace():
                lines.append(line)
        if rest:
            self._pending.append(rest)
            self._pending_bytes += len(rest)
            self._check(self._pending_bytes)
        return lines

    def _check(self, length_bytes: int) -> None:
        if length_bytes > self._line_bytes_max:
            raise LineTooLongError(f"line of more than {self._line_bytes_max} bytes")
