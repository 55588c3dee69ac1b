"""Health over time: it falls at once and comes back after a clean minute, whatever comes in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.node_report import ReportedDevice
from berth.node_qos_enforcer.core.device_health import (
    AWAY,
    CLEAN_S,
    REMEMBERED_MAX,
    Health,
    followed,
    judged,
    key_of,
    remembered,
)
from berth.vendors.devices import FoundDevice, Status

GPU = FoundDevice(kind="gpu", minor=0, id="GPU-0")
ILL = replace(GPU, status=Status(healthy=False, code="Xid79", message="fallen off the bus"))
KEY = key_of(GPU)


class Watch:
    """Looks at one GPU, second after second; unix time is half a year ahead of the monotonic clock."""

    def __init__(self, before: dict[tuple[str, str], Health] | None = None) -> None:
        self.healths = before or {}

    def look(self, second: float, *found: FoundDevice) -> Health | None:
        self.healths = followed(self.healths, found, now_s=1e7 + second, monotonic_s=second)
        return self.healths.get(KEY)


def test_a_new_device_is_what_it_is_found_to_be() -> None:
    assert Watch().look(0, GPU) == Health(is_well=True, since_s=1e7)
    assert Watch().look(0, ILL) == Health(False, 1e7, "Xid79", "fallen off the bus")


def test_it_falls_at_once_and_comes_back_after_a_clean_minute() -> None:
    watch = Watch()
    watch.look(0, GPU)
    assert watch.look(1, ILL) == Health(False, 1e7 + 1, "Xid79", "fallen off the bus")
    assert watch.look(100, ILL) == Health(False, 1e7 + 1, "Xid79", "fallen off the bus"), "ill since it fell"
    for second in (102.0, 130.0, 102 + CLEAN_S - 0.1):
        health = watch.look(second, GPU)
        assert health is not None
        assert not health.is_well
        assert (health.code, health.since_s) == ("Xid79", 1e7 + 1)
    assert watch.look(102 + CLEAN_S, GPU) == Health(True, 1e7 + 102 + CLEAN_S)


def test_a_fault_in_between_begins_the_minute_anew() -> None:
    watch = Watch()
    watch.look(0, ILL)
    watch.look(1, GPU)
    watch.look(59, ILL)
    watch.look(60, GPU)
    assert not watch.look(60 + CLEAN_S - 1, GPU).is_well  # type: ignore[union-attr]
    assert watch.look(60 + CLEAN_S, GPU).is_well  # type: ignore[union-attr]


@pytest.mark.parametrize("away_s", [1.0, 3_600.0])
def test_one_that_was_away_is_well_after_a_clean_minute(away_s: float) -> None:
    """A driver that is loaded anew, a reset, a card that falls off the bus now and then."""
    watch = Watch()
    watch.look(0, GPU)
    gone = watch.look(1)
    assert (gone.is_well, gone.code, gone.is_away) == (False, AWAY, True)  # type: ignore[union-attr]
    watch.look(1 + away_s)
    back = watch.look(2 + away_s, GPU)
    assert (back.is_well, back.is_away) == (False, False)  # type: ignore[union-attr]
    assert watch.look(2 + away_s + CLEAN_S, GPU).is_well  # type: ignore[union-attr]


def test_an_ill_one_that_was_away_says_still_why() -> None:
    watch = Watch()
    watch.look(0, ILL)
    watch.look(1)
    assert watch.look(2, GPU).code == "Xid79"  # type: ignore[union-attr]


def test_another_card_under_the_same_minor_is_another_device() -> None:
    watch = Watch()
    watch.look(0, ILL)
    other = replace(GPU, id="GPU-1")
    watch.look(1, other)
    assert watch.healths[key_of(other)].is_well
    moved = replace(GPU, minor=7)
    assert not watch.look(2, moved).is_well, "an id goes before a minor"  # type: ignore[union-attr]


def test_a_restart_makes_no_device_well() -> None:
    reported = [
        ReportedDevice(kind="gpu", minor=0, id="GPU-0", healthy=False, reason="Xid79", message="m", since=5.0),
        ReportedDevice(kind="rdma", minor=1, since=6.0),
    ]
    watch = Watch(remembered(reported))
    nic = FoundDevice(kind="rdma", minor=1, id="")
    assert watch.look(0, GPU, nic) == Health(False, 5.0, "Xid79", "m", clean_since_s=0)
    assert watch.healths[key_of(nic)] == Health(True, 6.0)
    assert watch.look(CLEAN_S, GPU).is_well  # type: ignore[union-attr]


def test_what_is_judged_is_what_counts_and_not_what_was_found() -> None:
    assert judged(GPU, Health(False, 0, "Xid79", "m")).status == Status(healthy=False, code="Xid79", message="m")
    assert judged(ILL, Health(True, 0)).is_healthy


def test_only_so_many_that_are_away_are_remembered() -> None:
    many = [FoundDevice(kind="gpu", minor=minor, id=f"GPU-{minor}") for minor in range(REMEMBERED_MAX + 10)]
    healths = followed({}, many, now_s=0, monotonic_s=0)
    assert len(followed(healths, [], now_s=1, monotonic_s=1)) == REMEMBERED_MAX


@given(st.lists(st.tuples(st.sampled_from(["well", "ill", "gone"]), st.floats(0.1, 90)), max_size=30))
def test_a_device_is_well_only_if_all_looks_of_a_minute_say_so(looks: list[tuple[str, float]]) -> None:
    watch, second, clean_since, seen = Watch(), 0.0, None, False
    for what, pause in looks:
        second += pause
        found = {"well": [GPU], "ill": [ILL], "gone": []}[what]
        health = watch.look(second, *found)
        was_new, seen = not seen, seen or what != "gone"
        if what == "well":
            clean_since = (second - CLEAN_S if was_new else second) if clean_since is None else clean_since
            assert health is not None
            assert health.is_well == (second - clean_since >= CLEAN_S)
        else:
            clean_since = None
            assert health is None or not health.is_well
