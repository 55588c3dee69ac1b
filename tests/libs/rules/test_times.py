"""Times of the API server."""

from __future__ import annotations

import pytest

from berth.rules.times import unix_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1970-01-01T00:00:00.250Z", 0.25),
        ("1970-01-01T00:00:07", 7.0),
        ("", None),
        ("yesterday", None),
        ("99999-01-01T00:00:00Z", None),
    ],
)
def test_times_are_read(text: str, seconds: float | None) -> None:
    assert unix_of(text) == seconds
