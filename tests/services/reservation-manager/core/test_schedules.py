"""Schedules in the manager: what is asked for, how often, and what is told."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import msgspec

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import encode
from berth.contracts.command import ApplyObject, PatchObject
from berth.contracts.kube import ReservationScheduleStatus
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.subjects import named_key, pod_key
from berth.reservation_manager.reconciler import Reconciler
from berth.reservation_manager.views import StateView
from berth.runtime import Moment, PublishedView

NOW = datetime(2026, 11, 26, 23, 0, tzinfo=UTC).timestamp()
MARKED, NAME = "schedule/nightly", "nightly-202611262200"
OURS = ("berth-scheduler",)
NOBODY: PublishedView[ReservedCapacity] = PublishedView("reservation", ReservedCapacity, lambda _: None)


class Cluster:
    """A view that is fed by hand, and the schedules that look at it."""

    def __init__(self) -> None:
        self.marked: list[str] = []
        self.view = StateView(self.marked.append)
        self.reconciler = Reconciler(self.view, NOBODY, schedulers=OURS, retry_s=15.0)
        self.sequence = 0

    def put(self, key, message):
        self.sequence += 1
        value = b"" if message is None else encode(message)
        self.view.apply(Entry(key, value, message is None, self.sequence, 0, False, None))

    def schedule(self, **fields):
        known = {"cron": "0 22 * * *", "time_zone": "UTC", "duration_s": 10_800.0, "displaces": "Nobody"}
        known |= {"spec": {"owners": [{}], "template": {}}, "name": "nightly", "uid": "u", "version": self.sequence + 1}
        self.put(named_key("reservationschedule", "nightly"), state.ReservationSchedule(**(known | fields)))

    def made(self, apply, **fields):
        known = {"name": apply.name, "uid": "r", "version": 1, "annotations": apply.annotations}
        self.put(named_key("reservation", apply.name), state.Reservation(**(known | fields)))

    def pod(self, name, **fields):
        template = state.PodTemplate(requests={"cpu": 1000}, scheduler=OURS[0])
        known = {"namespace": "ns", "name": name, "uid": name, "version": 1, "template": template}
        self.put(pod_key("ns", name), state.Pod(**(known | {"unschedulable": "no room"} | fields)))

    def asked(self, at_s, now=NOW):
        outcome = self.reconciler.reconcile(MARKED, Moment(now + at_s, at_s))
        return [each.message for each in outcome.commands]

    def shows(self, patch, **fields):
        self.schedule(status=msgspec.convert(patch.status, ReservationScheduleStatus), **fields)


def test_the_reservation_of_a_window_is_asked_for_until_it_is_there():
    cluster = Cluster()
    cluster.schedule()
    apply, patch = cluster.asked(0.0)
    assert (type(apply), apply.name, apply.owner.uid) == (ApplyObject, NAME, "u")
    assert [each["phase"] for each in patch.status["windows"]] == ["Due"]
    assert cluster.asked(1.0) == []
    assert MARKED in cluster.reconciler.due(Moment(NOW + 16, 16.0))
    assert ApplyObject in [type(each) for each in cluster.asked(16.0)]
    cluster.made(apply)
    assert cluster.marked[-1] == MARKED
    (patch,) = cluster.asked(40.0)
    assert patch.status["lastMade"] == "2026-11-26T22:00:00Z"


def test_a_status_that_is_shown_is_not_asked_for_again():
    cluster = Cluster()
    cluster.schedule()
    apply, _ = cluster.asked(0.0)
    cluster.made(apply)
    (patch,) = cluster.asked(5.0)
    cluster.shows(patch)
    assert cluster.asked(10.0) == []
    cluster.put(named_key("reservation", NAME), None)
    (patch,) = cluster.asked(15.0)
    assert [each["phase"] for each in patch.status["windows"]] == ["Skipped"]


def test_a_status_is_written_at_most_thirty_times_a_minute():
    cluster, rng, written = Cluster(), random.Random(7), []
    cluster.schedule()
    apply, _ = cluster.asked(0.0)
    for step in range(1, 6_000):
        at_s = step * 0.02
        held = {"phase": "Available", "node": "n", "allocatable": {"cpu": 10_000}}
        cluster.made(apply, allocated={"cpu": rng.randrange(10_000)}, **held)
        for patch in cluster.asked(at_s):
            assert isinstance(patch, PatchObject)
            written.append(at_s)
            cluster.shows(patch)
    assert len(written) > 30
    assert all(sum(start <= each < start + 60 for each in written) <= 30 for start in written)
    assert MARKED in cluster.reconciler.due(Moment(NOW + 200, 200.0))


def test_pods_without_room_are_counted_while_they_wait():
    cluster = Cluster()
    cluster.schedule()
    apply, _ = cluster.asked(0.0)
    cluster.made(apply, phase="Available", node="n", allocatable={"cpu": 2_500})
    for name in ("a", "b", "c"):
        cluster.pod(name)
    cluster.pod("d", template=state.PodTemplate(requests={"cpu": 1}, scheduler="another"))
    (patch,) = cluster.asked(5.0)
    assert patch.status["windows"][0]["waitingPods"] == 2
    cluster.pod("a", node="n")
    cluster.put(pod_key("ns", "b"), None)
    (patch,) = cluster.asked(10.0)
    assert patch.status["windows"][0]["waitingPods"] == 1


def test_a_clock_that_jumps_is_a_reason_to_look_and_makes_no_second_one():
    cluster = Cluster()
    cluster.schedule()
    apply, _ = cluster.asked(0.0)
    cluster.made(apply)
    cluster.asked(5.0)
    assert cluster.reconciler.due(Moment(NOW - 300, 6.0)) == [MARKED]
    assert not [each for each in cluster.asked(20.0, NOW - 3000) if isinstance(each, ApplyObject)]
    assert not [each for each in cluster.asked(30.0, NOW + 3000) if isinstance(each, ApplyObject)]


def test_what_is_wrong_is_told_once():
    cluster = Cluster()
    cluster.schedule(cron="61 * * * *")
    first = cluster.reconciler.reconcile(MARKED, Moment(NOW, 0.0))
    (event,) = first.events
    assert (event.message.kind, event.message.problems[0].field) == ("ReservationSchedule", "spec.cron")
    assert not cluster.reconciler.reconcile(MARKED, Moment(NOW, 1.0)).events


def test_one_that_is_gone_is_forgotten():
    cluster = Cluster()
    cluster.schedule()
    cluster.asked(0.0)
    cluster.put(named_key("reservationschedule", "nightly"), None)
    assert cluster.asked(1.0) == []
    assert cluster.reconciler.due(Moment(NOW + 9e6, 9e6)) == []
