"""Durations as Go writes them (`1h30m`, `250ms`), or plain seconds."""

import re

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
LIMIT_S = 10 * 365 * 86_400.0


def parse_duration_s(text: str) -> float | None:
    """Seconds; None if it is not a duration, or is longer than ten years."""
    text = text.strip()
    if len(text) > 64:
        return None
    if re.fullmatch(r"\d+(\.\d*)?", text):
        total = float(text)
    else:
        if not re.fullmatch(f"(?:{_PART.pattern})+", text):
            return None
        total = sum(float(value) * _UNIT_S[unit] for value, unit in _PART.findall(text))
    return total if total <= LIMIT_S else None
