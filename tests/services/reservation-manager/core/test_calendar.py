"""When windows are: by the clock on the wall, as a function of now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from berth.reservation_manager.core.calendar import Calendar, cron_problem, period_s, zone_of

HOUR_S = 3600.0
CRONS = ("0 22 * * 1-5", "30 2 * * *", "15 */6 * * *", "0 0 1 * *", "0 0,23 * * *", "*/20 * * * *", "0 12 29 2 *")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Antarctica/Troll")


def unix(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()


def times(calendar: Calendar, now: float, lead_s: float = 0.0) -> list[str]:
    return [f"{datetime.fromtimestamp(each.start, UTC):%m-%d %H:%M}" for each in calendar.current(now, lead_s)]


def test_a_window_is_open_from_its_start_until_its_duration_is_over():
    nightly = Calendar("0 22 * * *", "Europe/Berlin", 8 * HOUR_S)
    assert times(nightly, unix(2026, 11, 26, 20, 59, 59)) == []
    assert times(nightly, unix(2026, 11, 26, 21, 0)) == ["11-26 21:00"]
    assert times(nightly, unix(2026, 11, 27, 4, 59, 59)) == ["11-26 21:00"]
    assert times(nightly, unix(2026, 11, 27, 5, 0)) == []


def test_with_a_lead_a_window_counts_before_it_starts():
    nightly = Calendar("0 22 * * *", "UTC", 24 * HOUR_S)
    assert times(nightly, unix(2026, 11, 26, 21, 30), HOUR_S) == ["11-25 22:00", "11-26 22:00"]
    assert times(nightly, unix(2026, 11, 26, 20, 30), HOUR_S) == ["11-25 22:00"]


def test_an_hour_that_comes_twice_counts_once():
    early = Calendar("30 2 * * *", "Europe/Berlin", HOUR_S / 2)
    assert times(early, unix(2026, 10, 25, 0, 35)) == ["10-25 00:30"]
    assert times(early, unix(2026, 10, 25, 1, 35)) == []
    hourly = Calendar("0 * * * *", "Europe/Berlin", HOUR_S)
    assert times(hourly, unix(2026, 10, 25, 1, 10)) == []


def test_an_hour_that_is_skipped_is_not_made_up():
    early = Calendar("30 2 * * *", "Europe/Berlin", HOUR_S)
    day_s = 86_400
    midnight = unix(2026, 3, 29)
    assert [times(early, midnight + minute * 60) for minute in range(0, 300, 5)] == [[]] * 60
    assert times(early, midnight + day_s + 1800) == ["03-30 00:30"]


def test_a_window_gives_way_to_the_next_one_on_a_short_day():
    daily = Calendar("0 3 * * *", "Europe/Berlin", 24 * HOUR_S)
    ((start, end),) = daily.current(unix(2026, 3, 28, 2, 0), 0.0)
    assert end - start == 23 * HOUR_S
    assert len(daily.current(unix(2026, 3, 29, 1, 0), 0.0)) == 1


@pytest.mark.parametrize(
    ("cron", "hours"),
    [
        ("0 22 * * *", 24),
        ("*/10 * * * *", 1 / 6),
        ("0 0,23 * * *", 1),
        ("0 12 * * 1", 7 * 24),
        ("0 0 1 * 1", 24),
        ("0 0 1 * *", 28 * 24),
        ("0 0 29 2 *", 1461 * 24),
    ],
)
def test_the_period_is_the_least_time_between_two_starts(cron, hours):
    assert period_s(cron) == hours * HOUR_S


@pytest.mark.parametrize(
    ("cron", "wrong"),
    [
        ("x", "five fields"),
        ("", "five fields"),
        ("* * * * * *", "five fields"),
        ("61 * * * *", "minute"),
        ("0 0 31 2 *", "day-of-month"),
        ("0 0 * * abc", "day-of-week"),
        ("0 22 * * 1-5", ""),
        ("0 0 L * *", ""),
    ],
)
def test_what_is_wrong_with_a_cron_is_named(cron, wrong):
    assert wrong in cron_problem(cron) if wrong else not cron_problem(cron)


def test_zones_are_found_by_their_names_alone():
    assert [zone_of(name) is not None for name in ("Europe/Berlin", "UTC", "Nowhere/Land", "../etc", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@given(
    cron=st.sampled_from(CRONS),
    zone=st.sampled_from(ZONES),
    now=st.integers(int(unix(2024, 1, 1)), int(unix(2030, 1, 1))),
    share=st.floats(0.01, 1.0),
    lead=st.floats(0.0, 1.0),
)
@example(cron="30 2 * * *", zone="Europe/Berlin", now=int(unix(2026, 10, 25, 1, 30)), share=1.0, lead=1.0)
@example(cron="30 2 * * *", zone="Europe/Berlin", now=int(unix(2026, 3, 29, 1, 30)), share=1.0, lead=1.0)
def test_windows_never_overlap_and_whoever_looks_later_sees_the_same(cron, zone, now, share, lead):
    calendar = Calendar(cron, zone, int(max(1.0, share * min(period_s(cron), 86_400.0))))
    lead_s = int(lead * min(period_s(cron), 7200.0))
    seen = {}
    for offset_s in range(0, 7200, 600):
        for start, end in calendar.current(now + offset_s, lead_s):
            assert seen.setdefault(start, end) == end
            assert end - start <= calendar.duration_s
            assert start - lead_s <= now + offset_s < end
            local = datetime.fromtimestamp(start, ZoneInfo(zone))
            assert (local.fold, local.second) == (0, 0)
    ordered = sorted(seen.items())
    assert all(end <= start for (_, end), (start, _) in pairwise(ordered))
    following = calendar.next_start(now)
    assert following is not None
    assert following > now
    assert calendar.current(following, 0.0)[-1].start == following


def test_the_next_start_is_the_first_after():
    weekdays = Calendar("0 22 * * 1-5", "UTC", HOUR_S)
    friday = unix(2026, 11, 27, 22)
    assert weekdays.next_start(friday) == friday + timedelta(days=3).total_seconds()
    assert weekdays.next_start(friday - 1) == friday
