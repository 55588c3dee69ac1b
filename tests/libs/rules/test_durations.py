"""Durations as Go reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.durations import NANOSECONDS_MAX, parse_duration_ns, parse_duration_s

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("0", 0),
        ("+0", 0),
        ("30s", 30 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("-2m", -120 * SECOND),
        ("5us", 5000),
        ("5µs", 5000),
        ("5μs", 5000),
        ("1m1ms1ns", 60 * SECOND + 1_000_001),
        ("0.1ns", 0),
        ("9223372036854775807ns", NANOSECONDS_MAX),
        ("1s1h", 3601 * SECOND),
    ],
)
def test_read(text: str, expected_ns: int) -> None:
    assert parse_duration_ns(text) == expected_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "30",
        "s",
        ".s",
        "1d",
        "1 s",
        " 1s",
        "1s ",
        "1,5s",
        "1e3s",
        "1s-1s",
        "٣s",
        "9223372036854775808ns",
        "9" * 200 + "s",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration"):
        parse_duration_ns(text)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10_000))
def test_parts_add_up(hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    text = f"{hours}h{minutes}m{seconds}s{milliseconds}ms"
    assert parse_duration_ns(text) == (hours * 3600 + minutes * 60 + seconds) * SECOND + milliseconds * 1_000_000


def test_seconds() -> None:
    assert parse_duration_s("1m500ms") == 60.5
