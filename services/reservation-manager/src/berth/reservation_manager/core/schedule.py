"""A ReservationSchedule: what is wrong with it, which Reservations it asks for now, and what its windows cost.

`now` in unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube import ReservationScheduleStatus, ScheduledWindow, ScheduleProblem
from berth.contracts.state import Amounts, Reservation, ReservationSchedule
from berth.reservation_manager.core.calendar import Calendar, Window, cron_problem, period_s, zone_of
from berth.resources.amounts import format_amounts
from berth.rules.reservation_displaces import LOWER_PRIORITY, WORDS
from berth.rules.reservation_window import WindowNote, window_of

ANOTHERS: Final = "Another's"
DUE: Final = "Due"
SKIPPED: Final = "Skipped"
TTL: Final = "87600h"
"""Of the Reservations that are made: they end by `expires`, and one of 0 would disable that."""
NAME_LENGTH_MAX: Final = 240
"""Longest name of a schedule: those of its Reservations are longer by a hyphen and twelve digits."""
PERIOD_NAMES: Final = ("duration", "lead")
_OWN_PREFIX: Final = "scheduling.berth.sh/"
_GIVEN: Final = frozenset(
    {
        names.ANNOTATION_DEVICE_ALLOCATED,
        names.ANNOTATION_RESERVATION_ALLOCATED,
        names.ANNOTATION_RESOURCE_STATUS,
    }
)
"""What schedulers note about what they gave out: no author of an object may."""


class Wish(NamedTuple):
    """A Reservation that should be there, and is not."""

    name: str
    spec: dict[str, Any]
    labels: dict[str, str]
    annotations: dict[str, str]


class Waiting(NamedTuple):
    """A pod that waits for room: what it asks for."""

    priority: int
    requests: Amounts


class Judged(NamedTuple):
    """What a schedule comes to now. `look_at`: when time alone is the next reason to look, unix seconds."""

    wishes: list[Wish]
    status: ReservationScheduleStatus
    problems: list[Problem]
    look_at: float


def problems_of(schedule: ReservationSchedule) -> list[Problem]:
    """Everything that is wrong with the object; with a problem it makes nothing."""
    found = list(schedule.problems)
    named = {problem.field for problem in found}
    if len(schedule.name) > NAME_LENGTH_MAX:
        message = f"has {len(schedule.name)} characters, at most {NAME_LENGTH_MAX} are accepted"
        found.append(Problem(field="metadata.name", message=message))
    wrong = cron_problem(schedule.cron)
    if wrong and "spec.cron" not in named:
        found.append(Problem(field="spec.cron", message=wrong))
    if zone_of(schedule.time_zone) is None and "spec.timeZone" not in named:
        message = f"{schedule.time_zone!r} is no time zone such as Europe/Berlin"
        found.append(Problem(field="spec.timeZone", message=message))
    if schedule.duration_s <= 0 and "spec.duration" not in named:
        found.append(Problem(field="spec.duration", message="must be more than 0"))
    if not wrong:
        period = period_s(schedule.cron)
        for name, length in zip(PERIOD_NAMES, (schedule.duration_s, schedule.lead_s), strict=True):
            if length > period:
                message = f"is {length:g} s, more than the {period:g} s from one start to the next"
                found.append(Problem(field=f"spec.{name}", message=message))
    if wrong_word := _displaces_problem(schedule):
        found.append(Problem(field="spec.displaces", message=wrong_word))
    found += [
        Problem(field=f"spec.template.spec.{field}", message="is the window's to say")
        for field in sorted({"ttl", "expires"} & schedule.spec.keys())
    ]
    for part, keys in (("labels", schedule.labels), ("annotations", schedule.annotations)):
        for key in sorted(key for key in keys if key.startswith(_OWN_PREFIX) or key in _GIVEN):
            message = "belongs to cluster-writer"
            found.append(Problem(field=f"spec.template.metadata.{part}[{key}]", message=message))
    return found


def judge(
    schedule: ReservationSchedule, reservations: Mapping[str, Reservation], waiting: Iterable[Waiting], now: float
) -> Judged:
    """Judge one schedule. A window has one Reservation, named by its start: one that was there and is not is never made
    again, and a window that is over is not made up."""
    problems = problems_of(schedule)
    shown = schedule.status
    if problems or schedule.deleting:
        status = ReservationScheduleStatus(windows=[], last_made=shown.last_made, problems=_shown(problems))
        return Judged([], status, problems, float("inf"))
    calendar = Calendar(schedule.cron, schedule.time_zone, schedule.duration_s)
    windows = calendar.current(now, schedule.lead_s)
    following = calendar.next_start(max([now, *(float(window.start) for window in windows)]))
    last_made, wishes, listed, waits = shown.last_made, [], [], list(waiting)
    for window in windows:
        name = name_of(schedule, window)
        start, reservation = rfc3339(window.start), reservations.get(name)
        if reservation is None:
            phase = SKIPPED if start <= shown.last_made else DUE
            if phase == DUE:
                wishes.append(_wish(schedule, name, window))
            listed.append(ScheduledWindow(start=start, end=rfc3339(window.end), reservation=name, phase=phase))
            continue
        note = window_of(reservation.annotations)
        if note is None or note.uid != schedule.uid:
            message = f"there is a Reservation {name} already that is not this schedule's"
            problems.append(Problem(field="metadata.name", message=message))
            phase = ANOTHERS
            listed.append(ScheduledWindow(start=start, end=rfc3339(window.end), reservation=name, phase=phase))
            continue
        last_made = max(last_made, start)
        listed.append(_priced(reservation, window, schedule.lead_s, waits))
    status = ReservationScheduleStatus(
        windows=listed,
        next=rfc3339(following) if following is not None else "",
        last_made=last_made,
        problems=_shown(problems),
    )
    turns = [window.end for window in windows]
    if following is not None:
        turns.append(following - schedule.lead_s)
    return Judged(wishes, status, problems, min(turns, default=float("inf")))


def _displaces_problem(schedule: ReservationSchedule) -> str:
    """What is wrong with whom it displaces; empty: nothing."""
    if schedule.displaces not in WORDS:
        return f"{schedule.displaces!r} is none of {', '.join(WORDS)}"
    if schedule.displaces != LOWER_PRIORITY or names.LABEL_PRIORITY in schedule.labels:
        return ""
    pod: Any = schedule.spec.get("template")
    for part in ("spec", "priority"):
        pod = pod.get(part) if isinstance(pod, dict) else None
    return "" if pod is not None else f"{LOWER_PRIORITY} needs a priority: spec.template.spec.template.spec.priority"


def name_of(schedule: ReservationSchedule, window: Window) -> str:
    """The Reservation of a window: every replica asks for the same."""
    return f"{schedule.name}-{_time(window.start):%Y%m%d%H%M}"


def rfc3339(time: float) -> str:
    """As objects show it."""
    return f"{_time(time):%Y-%m-%dT%H:%M:%SZ}"


def _time(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC)


def _shown(problems: Iterable[Problem]) -> list[ScheduleProblem]:
    return [ScheduleProblem(field=each.field, message=each.message) for each in problems]


def _wish(schedule: ReservationSchedule, name: str, window: Window) -> Wish:
    start, end = rfc3339(window.start), rfc3339(window.end)
    note = WindowNote(
        schedule=schedule.name,
        uid=schedule.uid,
        start=start,
        end=end,
        displaces=schedule.displaces,
        lead_s=schedule.lead_s,
    )
    annotations = {**schedule.annotations, names.ANNOTATION_WINDOW: msgspec.json.encode(note).decode()}
    return Wish(name, {**schedule.spec, "ttl": TTL, "expires": end}, dict(schedule.labels), annotations)


def _priced(reservation: Reservation, window: Window, lead_s: float, waits: list[Waiting]) -> ScheduledWindow:
    held = reservation.allocatable or reservation.template.requests
    hours = (window.end - window.start + lead_s) / 3600
    amount_hours = {name: int(amount * hours) for name, amount in held.items()}
    used = {name: reservation.allocated.get(name, 0) for name in held}
    is_held = bool(reservation.node) and reservation.phase == "Available"
    remainder = {name: amount - used[name] for name, amount in held.items()} if is_held else {}
    return ScheduledWindow(
        start=rfc3339(window.start),
        end=rfc3339(window.end),
        reservation=reservation.name,
        phase=reservation.phase or "Pending",
        amount_hours=format_amounts(amount_hours),
        used_percent={name: min(100, 100 * used[name] // amount) for name, amount in held.items() if amount > 0},
        waiting_pods=_admitted(remainder, waits),
    )


def _admitted(remainder: Amounts, waits: list[Waiting]) -> int:
    """How many of the pods the remainder has the amounts for, the most important first, small ones before large."""
    left, admitted = dict(remainder), 0
    for pod in sorted(waits, key=lambda pod: (-pod.priority, sorted(pod.requests.items()))) if left else ():
        asked = {name: amount for name, amount in pod.requests.items() if amount > 0}
        if asked and all(amount <= left.get(name, 0) for name, amount in asked.items()):
            for name, amount in asked.items():
                left[name] -= amount
            admitted += 1
    return admitted
