"""When the windows of a schedule are, as a function of its fields and of now.

A cron is read in the local time of its zone, as the clock on the wall there. A time that the wall never shows (an hour
that is skipped) has no window; one that it shows twice has one, at the first. So which windows there are depends on
nothing but the fields: every replica computes the same, and a missed one is not made up.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

FIELDS: Final = 5
_CYCLE: Final = (datetime(2024, 1, 1), datetime(2052, 1, 1))  # noqa: DTZ001 - by the clock on a wall
"""Local time in which weekdays and leap years have come in every combination."""
_SHIFT: Final = timedelta(hours=3)
"""More than a clock is set forward or back by."""
_STEPS_MAX: Final = 2_000
_FAR: Final = datetime(9000, 1, 1)  # noqa: DTZ001 - by the clock on a wall


class Window(NamedTuple):
    """From when to when a window is open, unix seconds."""

    start: int
    end: float


class Calendar(NamedTuple):
    """Which windows there are: when they start, how long they are open."""

    cron: str
    time_zone: str
    duration_s: float

    def current(self, now: float, lead_s: float) -> list[Window]:
        """The windows that are open, or start within the lead, in order."""
        minute = int(now // 60)
        starts = _starts(self, minute, lead_s)
        # A window gives way to the next one, where a clock that was set forward has brought that nearer.
        windows = [
            Window(start, min(start + self.duration_s, following))
            for start, following in zip(starts, (*starts[1:], float("inf")), strict=False)
        ]
        return [window for window in windows if window.start - lead_s <= now < window.end]

    def next_start(self, after: float) -> int | None:
        """The first start after this time; None where there is none."""
        return next((start for start in _starts(self, int(after // 60), 0.0, ahead=True) if start > after), None)


def cron_problem(cron: str) -> str:
    """What is wrong with a cron; empty where nothing is."""
    if len(cron.split()) != FIELDS:
        return f"{cron!r} has not five fields: minute, hour, day of month, month, day of week"
    try:
        next(CronSim(cron, _CYCLE[0]))
    except CronSimError as error:
        return f"{cron!r} is no cron: {error}"
    except StopIteration:
        return f"{cron!r} never comes"
    return ""


def zone_of(name: str) -> tzinfo | None:
    """The IANA time zone of this name; None where there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@lru_cache(maxsize=4096)
def period_s(cron: str) -> float:
    """The least time between two starts of a valid cron, by the clock on the wall."""
    parsed = CronSim(cron, _CYCLE[0])
    times = sorted(hour * 3600 + minute * 60 for hour in parsed.hours for minute in parsed.minutes)
    within = min((later - earlier for earlier, later in pairwise(times)), default=float("inf"))
    overnight = 86_400 - times[-1] + times[0]
    days = _days_between(" ".join(["0 0", *cron.split()[2:]]))
    return min(within, (days - 1) * 86_400 + overnight)


def _days_between(daily: str) -> float:
    """The least number of days from one day of the cron to another."""
    least, before = float("inf"), None
    for start in CronSim(daily, _CYCLE[0] - timedelta(minutes=1)):
        if start > _CYCLE[1]:
            break
        if before is not None:
            least = min(least, (start - before).days)
        if least == 1:
            break
        before = start
    return least


@lru_cache(maxsize=8192)
def _starts(calendar: Calendar, minute: int, lead_s: float, *, ahead: bool = False) -> tuple[int, ...]:
    """Starts around this minute in order: those of windows that may be open or within the lead, and that may cut one
    short; or with `ahead` those that come next. A superset: the caller looks closer."""
    zone = zone_of(calendar.time_zone)
    if zone is None:
        return ()
    now = datetime.fromtimestamp(minute * 60, UTC)
    if ahead:
        found: list[int] = []
        for local in CronSim(calendar.cron, _local(now, zone) - _SHIFT):
            start = _unix(local, zone)
            if start is not None:
                found.append(start)
                if start > minute * 60 + 60:
                    break
            if local > _FAR:
                break
        return tuple(sorted(set(found)))
    first = _local(now - timedelta(seconds=calendar.duration_s), zone) - _SHIFT
    last = _local(now + timedelta(seconds=lead_s + calendar.duration_s + 60), zone) + _SHIFT
    starts = set()
    for step, local in enumerate(CronSim(calendar.cron, first)):
        if local > last or step == _STEPS_MAX:
            break
        start = _unix(local, zone)
        if start is not None:
            starts.add(start)
    return tuple(sorted(starts))


def _local(time: datetime, zone: tzinfo) -> datetime:
    return time.astimezone(zone).replace(tzinfo=None, fold=0)


def _unix(local: datetime, zone: tzinfo) -> int | None:
    """When the clock on the wall first shows this time; None where it never does."""
    time = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return int(time.timestamp()) if _local(time, zone) == local else None
