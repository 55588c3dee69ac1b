"""W3C trace context as plain strings.

Berth carries a trace across messages as the text of a `traceparent` header. This module reads and writes that text; it
keeps no state but the source of new ids. Text that comes from a message is not trusted: what is not exactly a
traceparent is treated as absent and never passed on.
"""

import random
import re
from typing import Final, NamedTuple

_PATTERN: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_ZERO_TRACE: Final = "0" * 32
_ZERO_SPAN: Final = "0" * 16
_SAMPLED: Final = 1


class _Identifiers:
    """Where new ids come from."""

    source = random.Random()


def draw_identifiers_from(source: random.Random) -> None:
    """New ids come from here from now on: a simulation makes the same ones in every run."""
    _Identifiers.source = source


class Traceparent(NamedTuple):
    """The parts of a traceparent header, ids in lower-case hexadecimal."""

    trace_id: str
    span_id: str
    sampled: bool

    def __str__(self) -> str:
        """The header text."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def parse(text: str | None) -> Traceparent | None:
    """The parts, or None when the text is absent, malformed, of the forbidden version ff, or carries a zero id."""
    if text is None:
        return None
    match = _PATTERN.fullmatch(text)
    if match is None:
        return None
    version, trace_id, span_id, flags = match.groups()
    if version == "ff" or trace_id == _ZERO_TRACE or span_id == _ZERO_SPAN:
        return None
    return Traceparent(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


def unsampled_root() -> str:
    """A new trace that nobody records: it still ties log lines of several services together."""
    trace_id = _Identifiers.source.getrandbits(128) or 1
    span_id = _Identifiers.source.getrandbits(64) or 1
    return f"00-{trace_id:032x}-{span_id:016x}-00"
