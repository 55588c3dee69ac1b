"""Points in time, as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from berth.cli.errors import CliError

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def point(text: str, now_s: float) -> float:
    """Unix seconds from `15m` (so long ago; s, m, h, d), `2026-01-31T12:00:00Z` or unix seconds. Raises CliError.

    A time without a zone is one of UTC.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago:
        return now_s - float(ago[1]) * _SECONDS[ago[2]]
    try:
        return float(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise CliError(f"{text!r} is no time: write 15m, 2026-01-31T12:00:00Z, or unix seconds") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def told(at_s: float) -> str:
    """A time, to the second, in UTC."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
