"""Averages and percentiles over 5, 10 and 30 minutes, of what was really measured."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts.metrics import Usage
from berth.node_qos_enforcer.core.windows import DURATIONS_S, POINTS_MAX, UsageSeries


def used(cpu: int) -> Usage:
    return Usage(cpu_milli=cpu, memory_bytes=cpu << 20)


def series(until_s: float, *, every_s: float = 10.0, begins_s: float = 1_000.0, cpu: int = 0) -> UsageSeries:
    """Looks at regular intervals; each uses a milli-core more than the one before, or the same."""
    found = UsageSeries()
    for number in range(1, round(until_s / every_s) + 1):
        found.add(begins_s + number * every_s, every_s, used(cpu or number))
    return found


@pytest.mark.parametrize(
    ("measured_s", "windows"),
    [
        (0, {}),
        (140, {}),
        (150, {300: 150}),
        (290, {300: 290}),
        (300, {300: 300, 600: 300}),
        (890, {300: 300, 600: 600}),
        (900, {300: 300, 600: 600, 1800: 900}),
        (7_200, {300: 300, 600: 600, 1800: 1800}),
    ],
)
def test_a_window_is_there_once_half_of_it_was_measured(measured_s: int, windows: dict[int, int]) -> None:
    found = series(measured_s).windows()
    assert {each.duration_s: each.measured_s for each in found} == windows


def test_each_window_has_its_own_average_and_percentiles() -> None:
    five, ten, thirty = series(1_800).windows()
    assert [each.avg.cpu_milli for each in (five, ten, thirty)] == [165, 150, 90]
    assert [getattr(five, name).cpu_milli for name in ("p50", "p90", "p95", "p99")] == [165, 177, 178, 179]
    assert five.p99.memory_bytes == 179 << 20
    assert thirty.p50.cpu_milli == 90


def test_a_pause_is_not_measured() -> None:
    looks = series(300, cpu=500)
    looks.add(1_300 + 3_000, 0.0, used(9_000))  # the look after a pause says nothing of it
    assert [each.duration_s for each in looks.windows()] == [300, 600]
    looks.add(1_300 + 3_010, 10.0, used(100))
    assert looks.windows() == []
    assert len(looks) == 1


def test_a_pause_within_the_window_shows() -> None:
    looks = series(200, cpu=500)
    looks.add(1_300, 10.0, used(500))
    [five] = looks.windows()
    assert (five.duration_s, five.measured_s, five.avg.cpu_milli) == (300, 210, 500)


def test_a_clock_that_goes_back_begins_anew() -> None:
    looks = series(1_800)
    looks.add(900.0, 10.0, used(7))
    assert (len(looks), looks.windows()) == (1, [])


def test_close_looks_are_one_measurement() -> None:
    looks = series(600, every_s=0.25, cpu=400)
    assert len(looks) == 600
    assert [(each.duration_s, each.measured_s, each.p99.cpu_milli) for each in looks.windows()] == [
        (300, 300, 400),
        (600, 600, 400),
    ]
    both = UsageSeries()
    both.add(10.0, 0.25, used(1_000))
    both.add(10.75, 0.75, used(200))
    assert len(both) == 1


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.floats(-5, 40) | st.sampled_from([0.1, 1e4]), st.floats(-1, 40), st.integers(0, 10**6)),
        max_size=80,
    )
)
def test_whatever_the_looks_it_is_bounded_and_true(looks: list[tuple[float, float, int]]) -> None:
    found, at = UsageSeries(), 0.0
    for step_s, length_s, cpu in looks:
        at += step_s
        found.add(at, min(length_s, max(step_s, 0.0)), used(cpu))
        windows = found.windows()
        assert len(found) <= POINTS_MAX
        assert [each.duration_s for each in windows] == [s for s in DURATIONS_S if s in {w.duration_s for w in windows}]
        for each in windows:
            assert each.duration_s / 2 <= each.measured_s + 0.5 <= each.duration_s + 1
            assert each.p50.cpu_milli <= each.p90.cpu_milli <= each.p95.cpu_milli <= each.p99.cpu_milli
            assert 0 <= each.avg.cpu_milli <= max(cpu for _, _, cpu in looks)
