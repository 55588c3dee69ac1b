"""Usage from counters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.node_qos_enforcer.core.usage import MAX_SERIES, Counters, Reading, cores_between

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("before", "now", "want"),
    [
        pytest.param(None, Reading(5 * SECOND, 10.0), None, id="first sample"),
        pytest.param(Reading(0, 0.0), Reading(5 * SECOND, 10.0), 0.5, id="half a core"),
        pytest.param(Reading(7, 0.0), Reading(7, 10.0), 0.0, id="idle"),
        pytest.param(Reading(5 * SECOND, 0.0), Reading(1, 10.0), None, id="counter went back"),
        pytest.param(Reading(0, 0.0, 1), Reading(SECOND, 1.0, 2), None, id="group made anew"),
        pytest.param(Reading(0, 5.0), Reading(SECOND, 5.0), None, id="no time passed"),
        pytest.param(Reading(0, 5.0), Reading(SECOND, 4.0), None, id="clock went back"),
        pytest.param(Reading(0, 0.0), Reading(SECOND, 30.0), None, id="suspended in between"),
    ],
)
def test_cores_between(before, now, want):
    assert cores_between(before, now, max_gap_s=20.0) == want


@given(st.lists(st.integers(0, 4 * SECOND), min_size=1, max_size=30))
def test_usage_adds_up_to_what_the_counter_grew(steps):
    counters = Counters(max_gap_s=20.0, max_cores=8.0)
    total, value, used = 0, 0, 0.0
    counters.cores("a", Reading(0, 0.0))
    for index, step in enumerate(steps):
        value += step
        total += step
        used += counters.cores("a", Reading(value, float(index + 1)))
    assert used == pytest.approx(total / SECOND)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.floats(0, 100)), max_size=30))
def test_usage_is_never_negative_nor_absurd(readings):
    counters = Counters(max_gap_s=20.0, max_cores=8.0)
    for value, at in readings:
        cores = counters.cores("a", Reading(value, at))
        assert cores is None or 0 <= cores <= 8.0


def test_a_reset_costs_one_sample():
    counters = Counters(max_gap_s=20.0, max_cores=8.0)
    values = [counters.cores("a", Reading(v * SECOND, float(t))) for t, v in enumerate([5, 6, 0, 1])]
    assert values == [None, 1.0, None, 1.0]


def test_a_gone_owner_is_forgotten():
    counters = Counters(max_gap_s=20.0, max_cores=8.0)
    counters.cores("a", Reading(0, 0.0))
    counters.cores("b", Reading(0, 0.0))
    counters.keep_only({"b"})
    assert len(counters) == 1
    assert counters.cores("a", Reading(SECOND, 1.0)) is None
    assert counters.cores("b", Reading(SECOND, 1.0)) == 1.0


def test_memory_of_series_is_bounded():
    counters = Counters(max_gap_s=20.0, max_cores=8.0)
    for index in range(MAX_SERIES + 5):
        counters.cores(str(index), Reading(0, 0.0))
    assert len(counters) == MAX_SERIES
    assert counters.cores("0", Reading(SECOND, 1.0)) == 1.0
