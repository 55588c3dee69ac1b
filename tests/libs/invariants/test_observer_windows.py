"""Windows of schedules (I30): one Reservation each, which ends with it."""

from __future__ import annotations

import json

import pytest

from berth.contracts import names
from berth.invariants.observer.verdicts import Verdicts
from berth.invariants.observer.windows import Windows

START, END = "2026-11-26T22:00:00Z", "2026-11-27T01:00:00Z"


def reservation(name="nightly-1", uid="s", start=START, end=END, expires=END, noted=True):
    note = json.dumps({"schedule": "nightly", "uid": uid, "start": start, "end": end})
    notes = {names.ANNOTATION_WINDOW: note} if noted else {}
    return {"metadata": {"name": name, "annotations": notes}, "spec": {"expires": expires}}


def judged(*seen):
    verdicts = Verdicts()
    windows = Windows(verdicts)
    for data, deleted in seen:
        windows.see(data, deleted)
    return verdicts


@pytest.mark.parametrize(
    "seen",
    [
        [(reservation(), False), (reservation(), False)],
        [(reservation(), False), (reservation("nightly-2", start=END, end="x", expires="x"), False)],
        [(reservation(), False), (reservation(), True), (reservation("other"), False)],
        [(reservation(), False), (reservation("other", uid="another schedule"), False)],
        [(reservation(), False), (reservation("other", noted=False), False)],
    ],
)
def test_a_window_with_one_reservation_is_right(seen):
    verdicts = judged(*seen)
    assert not verdicts.found
    assert verdicts.judgements["I30"] >= 1


@pytest.mark.parametrize(
    "seen",
    [
        [(reservation(), False), (reservation("other"), False)],
        [(reservation(expires="2026-11-27T02:00:00Z"), False)],
        [(reservation(expires=None), False)],
        [(reservation(start=END, end=END), False)],
    ],
)
def test_two_of_a_window_or_one_that_ends_otherwise_are_found(seen):
    assert [each.promise for each in judged(*seen).found] == ["I30"]
