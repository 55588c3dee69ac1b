"""Which Reservations a schedule asks for, what it shows, and what is wrong with it."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from berth.contracts import names
from berth.contracts.kube import ReservationScheduleStatus
from berth.contracts.state import Reservation, ReservationSchedule
from berth.reservation_manager.core.schedule import Waiting, judge, problems_of

NOW = datetime(2026, 11, 26, 23, 0, tzinfo=UTC).timestamp()
NAME = "nightly-202611262200"


def schedule(**fields):
    known = {
        "name": "nightly",
        "uid": "uid-nightly",
        "version": 7,
        "cron": "0 22 * * *",
        "time_zone": "UTC",
        "duration_s": 3 * 3600.0,
        "displaces": "Nobody",
        "labels": {"team": "batch"},
        "spec": {"owners": [{"labelSelector": {}}], "template": {"spec": {}}},
    }
    return ReservationSchedule(**(known | fields))


def reservation(**fields):
    note = {"schedule": "nightly", "uid": "uid-nightly", "start": "2026-11-26T22:00:00Z", "end": "2026-11-27T01:00:00Z"}
    known = {
        "name": NAME,
        "uid": "r",
        "version": 9,
        "annotations": {names.ANNOTATION_WINDOW: msgspec.json.encode(note).decode()},
        "phase": "Available",
        "node": "n",
        "allocatable": {"cpu": 8000, "memory": 64 << 30},
        "allocated": {"cpu": 2000},
    }
    return Reservation(**(known | fields))


def test_an_open_window_asks_for_its_reservation():
    (wish,) = judge(schedule(), {}, (), NOW).wishes
    assert wish.name == NAME
    assert (wish.spec["expires"], wish.spec["ttl"]) == ("2026-11-27T01:00:00Z", "87600h")
    assert wish.spec["owners"] == [{"labelSelector": {}}]
    assert wish.labels == {"team": "batch"}
    assert msgspec.json.decode(wish.annotations[names.ANNOTATION_WINDOW]) == {
        "schedule": "nightly",
        "uid": "uid-nightly",
        "start": "2026-11-26T22:00:00Z",
        "end": "2026-11-27T01:00:00Z",
        "displaces": "Nobody",
        "lead_s": 0.0,
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"displaces": "Borrowers"},
        {"displaces": "LowerPriority", "labels": {names.LABEL_PRIORITY: "9"}},
        {"displaces": "LowerPriority", "spec": {"template": {"spec": {"priority": 0}}}},
    ],
)
def test_its_reservations_say_whom_they_displace(fields):
    (wish,) = judge(schedule(**fields), {}, (), NOW).wishes
    assert msgspec.json.decode(wish.annotations[names.ANNOTATION_WINDOW])["displaces"] == fields["displaces"]


def test_whoever_computes_it_and_whenever_asks_for_the_same():
    assert judge(schedule(), {}, (), NOW).wishes == judge(schedule(), {}, (), NOW + 7000).wishes


def test_a_window_that_is_over_is_not_made_up():
    judged = judge(schedule(), {}, (), NOW + 2 * 3600)
    assert not judged.wishes
    assert judged.status.next == "2026-11-27T22:00:00Z"


def test_a_reservation_that_somebody_deleted_is_not_made_again():
    said = ReservationScheduleStatus(last_made="2026-11-26T22:00:00Z")
    judged = judge(schedule(status=said), {}, (), NOW)
    assert not judged.wishes
    assert [window.phase for window in judged.status.windows] == ["Skipped"]


def test_the_price_is_what_is_held_times_the_hours():
    waits = [Waiting(0, {"cpu": 4000}), Waiting(5, {"cpu": 3000}), Waiting(0, {"cpu": 2000}), Waiting(0, {"gpu": 1})]
    status = judge(schedule(lead_s=3600.0), {NAME: reservation()}, waits, NOW).status
    (window,) = status.windows
    assert window.amount_hours == {"cpu": "32", "memory": "256Gi"}
    assert window.used_percent == {"cpu": 25, "memory": 0}
    assert window.waiting_pods == 2
    assert status.last_made == "2026-11-26T22:00:00Z"


def test_what_is_not_held_admits_nobody():
    pending = reservation(phase="Pending", node="", allocatable={}, allocated={})
    (window,) = judge(schedule(), {NAME: pending}, [Waiting(0, {"cpu": 1})], NOW).status.windows
    assert window.waiting_pods == 0


def test_a_reservation_of_somebody_else_stays_as_it_is():
    judged = judge(schedule(), {NAME: reservation(annotations={})}, (), NOW)
    assert not judged.wishes
    assert [problem.field for problem in judged.problems] == ["metadata.name"]
    assert [window.phase for window in judged.status.windows] == ["Another's"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron": "61 * * * *"}, "spec.cron"),
        ({"time_zone": "Europe/Nowhere"}, "spec.timeZone"),
        ({"duration_s": 25 * 3600.0}, "spec.duration"),
        ({"duration_s": 0.0}, "spec.duration"),
        ({"lead_s": 25 * 3600.0}, "spec.lead"),
        ({"displaces": "LowerPriority"}, "spec.displaces"),
        ({"displaces": "Everybody"}, "spec.displaces"),
        ({"spec": {"ttl": "1h"}}, "spec.template.spec.ttl"),
        ({"spec": {"expires": "2026-11-27T01:00:00Z"}}, "spec.template.spec.expires"),
        (
            {"annotations": {"scheduling.berth.sh/plan": "p"}},
            "spec.template.metadata.annotations[scheduling.berth.sh/plan]",
        ),
        ({"labels": {"scheduling.berth.sh/x": "p"}}, "spec.template.metadata.labels[scheduling.berth.sh/x]"),
        ({"name": "n" * 241}, "metadata.name"),
    ],
)
def test_what_is_wrong_is_named_by_field_and_makes_nothing(fields, field):
    bad = schedule(**fields)
    assert [problem.field for problem in problems_of(bad)] == [field]
    judged = judge(bad, {}, (), NOW)
    assert not judged.wishes
    assert [problem.field for problem in judged.status.problems] == [field]


def test_one_that_is_right_has_no_problems_and_one_being_deleted_makes_nothing():
    assert not problems_of(schedule())
    assert not judge(schedule(deleting=True), {}, (), NOW).wishes


def test_time_alone_is_a_reason_to_look_when_a_window_begins_or_ends():
    assert judge(schedule(), {}, (), NOW).look_at == NOW + 2 * 3600
    assert judge(schedule(lead_s=600.0), {}, (), NOW + 3 * 3600).look_at == NOW + 23 * 3600 - 600
