"""Aggregations of measurements, against the reference cases and their own laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.node_qos_enforcer.core.aggregate import SHARES, Sample, aggregated, percentile
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("node-qos/metric-aggregation"))
def test_vector(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    found = aggregated([Sample(*each) for each in given["samples"]], given["aggregation"])
    assert found == (None if expect.get("error") else expect["value"])


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/perf_percentile"))
def test_percentiles_of_the_harness(case: dict[str, Any]) -> None:
    latencies = case["given"]["latencies"]
    assert {name: percentile(latencies, SHARES[name]) for name in case["expect"]} == case["expect"]


samples = st.lists(st.builds(Sample, st.floats(0, 1e9), st.floats(0, 1e12)), min_size=1, max_size=200)


@given(samples)
def test_percentiles_rise_and_are_measured(series: list[Sample]) -> None:
    found = [aggregated(series, name) for name in ("p50", "p90", "p95", "p99")]
    values = [sample.value for sample in series]
    assert found == sorted(value for value in found if value is not None)
    assert all(value in values for value in found)


@given(samples)
def test_the_average_is_between_the_extremes(series: list[Sample]) -> None:
    found = aggregated(series, "avg")
    values = [sample.value for sample in series]
    assert found is not None
    assert min(values) * (1 - 1e-9) <= found <= max(values) * (1 + 1e-9)


def test_of_equal_times_the_first_counts_as_the_newest() -> None:
    assert aggregated([Sample(1, 7), Sample(2, 3), Sample(2, 4)], "last") == 3


def test_without_samples_nothing_is_known() -> None:
    assert aggregated([], "count") is None
    assert aggregated([], "last") is None


def test_count() -> None:
    assert aggregated([Sample(1, 7), Sample(2, 3)], "count") == 2
