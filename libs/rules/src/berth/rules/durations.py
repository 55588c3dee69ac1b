"""Durations as Kubernetes objects and annotations write them: `30s`, `1h30m`, `1.5h`, `250ms`.

Follows Go's `time.ParseDuration`: a sign, then numbers each with a unit; a bare `0` needs no unit. The result is
exact, in nanoseconds, cut off (not rounded) below one nanosecond. Days and weeks are no units there and none here.
"""

import re
from typing import Final

TEXT_LENGTH_MAX: Final = 128
NANOSECONDS_MAX: Final = 2**63 - 1

_UNITS_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = re.compile(r"(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(ns|us|µs|μs|ms|s|m|h)")


def parse_duration_ns(text: str) -> int:
    """Nanoseconds, negative for a negative duration. Raises ValueError with a short message fit for the author of the
    text.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise ValueError(f"is too long for a duration ({len(text)} characters, at most {TEXT_LENGTH_MAX})")
    negative = text.startswith("-")
    body = text[1:] if text[:1] in {"+", "-"} else text
    if body == "0":
        return 0
    total = _sum_of_parts(body)
    if total is None:
        raise ValueError(f"{text!r} is not a duration such as 30s or 1h30m")
    if total > NANOSECONDS_MAX:
        raise ValueError("is too large for a duration (at most about 292 years)")
    return -total if negative else total


def parse_duration_s(text: str) -> float:
    """The same in seconds."""
    return parse_duration_ns(text) / 1_000_000_000


def _sum_of_parts(body: str) -> int | None:
    total, position = 0, 0
    while position < len(body):
        part = _PART.match(body, position)
        if part is None:
            return None
        whole, fraction, bare_fraction, unit = part.groups()
        digits = fraction or bare_fraction or ""
        total += int(whole or 0) * _UNITS_NS[unit] + int(digits or 0) * _UNITS_NS[unit] // 10 ** len(digits)
        position = part.end()
    return total if position else None
