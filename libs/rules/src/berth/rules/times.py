"""Times as the API server writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def text_of(unix_s: float) -> str:
    """RFC 3339 in whole seconds, UTC."""
    return datetime.fromtimestamp(int(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_of(text: str) -> float | None:
    """Unix seconds of an RFC 3339 time, UTC when it names no zone; None when it is none."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
