"""What is asked for ReservationSchedules, and how often: the Reservations of their windows, and their status.

Times: `now` in unix seconds, which may go back; `monotonic` never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.command import ApplyObject, PatchObject
from berth.contracts.kube import OwnerReference, ReservationScheduleStatus
from berth.contracts.state import Reservation, ReservationSchedule
from berth.reservation_manager.core.pacing import PAUSE_S, StatusPace
from berth.reservation_manager.core.schedule import Judged, Waiting, Wish, judge

API_VERSION: Final = "scheduling.berth.sh/v1alpha1"
API: Final = f"{API_VERSION}/reservationschedules"
RESERVATIONS: Final = "scheduling.koordinator.sh/v1alpha1/reservations"
PRICE_S: Final = 15.0
"""How often the price of an open window is reckoned anew, when nothing else is a reason to."""


class Requests(NamedTuple):
    """What is to be asked for now, and the problems that are new."""

    applies: list[ApplyObject] = []
    patch: PatchObject | None = None
    refused: list[Problem] = []


NOTHING: Final = Requests()


class _Asked(NamedTuple):
    """What was asked for last, and when (monotonic seconds)."""

    what: str
    at: float


class _Look(NamedTuple):
    """When a schedule was looked at, and when it is to be looked at again, unix seconds."""

    was: float
    next: float


class Schedules:
    """Remembers of each schedule when it was looked at, and what was asked for it."""

    def __init__(self, *, retry_s: float, pace: StatusPace) -> None:
        self._retry_s = retry_s
        self._pace = pace
        self._looks: dict[str, _Look] = {}
        self._announced: dict[str, tuple[str, list[Problem]]] = {}  # by name: uid, and problems
        self._wished: dict[tuple[str, str], float] = {}  # by names of schedule and Reservation: when, monotonic seconds
        self._asked: dict[str, _Asked] = {}
        self._unsaid: set[str] = set()

    def due(self, now: float, monotonic: float) -> list[str]:
        """Schedules with a window that begins or ends, and those that do not show yet what was asked for.

        A clock that went back is a reason to look as well.
        """
        found = {name for name, look in self._looks.items() if now >= look.next or now < look.was}
        found |= {name for (name, _), when in self._wished.items() if monotonic - when >= self._retry_s}
        for name, asked in self._asked.items():
            pause_s = PAUSE_S if name in self._unsaid else self._retry_s
            if monotonic - asked.at >= pause_s:
                found.add(name)
        return sorted(found)

    def begin(self) -> None:
        """Who is replaced may be so before its command is on its way."""
        self._asked.clear()
        self._wished.clear()
        self._unsaid.clear()

    def look(
        self,
        schedule: ReservationSchedule,
        reservations: Mapping[str, Reservation],
        waiting: Iterable[Waiting],
        now: float,
        monotonic: float,
    ) -> Requests:
        """Ask for the Reservations of its windows that are not there, and for its status."""
        judged = judge(schedule, reservations, waiting, now)
        is_priced = any(window.amount_hours for window in judged.status.windows or ())
        next_s = min(judged.look_at, now + PRICE_S) if is_priced else judged.look_at
        self._looks[schedule.name] = _Look(now, next_s)
        return Requests(
            self._wishes(schedule, judged.wishes, int(now * 1000), monotonic),
            self._patch(schedule, judged, monotonic),
            self._refusals(schedule, judged.problems),
        )

    def forget(self, name: str) -> None:
        """It is gone."""
        for book in (self._looks, self._announced, self._asked):
            book.pop(name, None)
        self._unsaid.discard(name)
        for key in [key for key in self._wished if key[0] == name]:
            del self._wished[key]

    def _wishes(
        self, schedule: ReservationSchedule, wishes: list[Wish], revision: int, monotonic: float
    ) -> list[ApplyObject]:
        wanted = {wish.name for wish in wishes}
        for key in [key for key in self._wished if key[0] == schedule.name and key[1] not in wanted]:
            del self._wished[key]
        owner = OwnerReference(
            api_version=API_VERSION, kind="ReservationSchedule", name=schedule.name, uid=schedule.uid, controller=True
        )
        applies = []
        for wish in wishes:
            before = self._wished.get((schedule.name, wish.name))
            if before is not None and monotonic - before < self._retry_s:
                continue
            self._wished[(schedule.name, wish.name)] = monotonic
            apply = ApplyObject(
                api=RESERVATIONS,
                name=wish.name,
                spec=wish.spec,
                owner=owner,
                revision=revision,
                labels=wish.labels,
                annotations=wish.annotations,
            )
            applies.append(apply)
        return applies

    def _patch(self, schedule: ReservationSchedule, judged: Judged, monotonic: float) -> PatchObject | None:
        """Ask for the status where the object shows another, guarded by the version that was judged."""
        name, wanted = schedule.name, _wire(judged.status)
        self._unsaid.discard(name)
        asked = self._asked.get(name)
        if wanted == _wire(schedule.status) or schedule.deleting:
            if asked is not None and monotonic - asked.at >= PAUSE_S:
                del self._asked[name]
            return None
        status = {field: msgspec.to_builtins(value) for field, value in wanted.items()}
        what = f"{schedule.version}/{msgspec.json.encode(status).decode()}"
        if asked is not None:
            is_same = asked.what == what
            if monotonic - asked.at < (self._retry_s if is_same else PAUSE_S):
                if not is_same:
                    self._unsaid.add(name)
                return None
        if not self._pace.take(monotonic):
            self._unsaid.add(name)
            self._asked.setdefault(name, _Asked("", monotonic))
            return None
        self._asked[name] = _Asked(what, monotonic)
        return PatchObject(api=API, name=name, uid=schedule.uid, version=str(schedule.version), status=status)

    def _refusals(self, schedule: ReservationSchedule, problems: list[Problem]) -> list[Problem]:
        """Problems that are new."""
        said = (schedule.uid, problems)
        before, self._announced[schedule.name] = self._announced.get(schedule.name), said
        return problems if before != said else []


def _wire(status: ReservationScheduleStatus) -> dict[str, object]:
    """The status as the object shows it; merged into what is there, so each field is named."""
    return {
        "windows": status.windows or [],
        "next": status.next,
        "lastMade": status.last_made,
        "problems": status.problems or [],
    }
