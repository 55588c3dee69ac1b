"""NodeMetric objects, as agents write them and as they should not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.load_aware.metric import Metric, PodReport, Window, is_expired
from berth.rules.load_aware.node_metric import PODS_MAX, WINDOWS_MAX, read_node_metric
from berth.rules.times import unix_of

TIME = "2026-01-02T03:04:05Z"
NOW_S = unix_of(TIME) or 0.0
STATUS: dict[str, Any] = {
    "updateTime": TIME,
    "nodeMetric": {
        "nodeUsage": {"resources": {"cpu": "1500m", "memory": "2Gi"}},
        "systemUsage": {"resources": {"cpu": "100m"}},
        "aggregatedNodeUsages": [
            {"duration": "5m0s", "usage": {"avg": {"resources": {"cpu": "1"}}, "p95": {"resources": {}}, "p50": None}}
        ],
    },
    "podsMetric": [
        {"namespace": "d", "name": "a", "priority": "koord-prod", "podUsage": {"resources": {"cpu": "20m"}}},
        {"namespace": "d", "name": "b", "podUsage": {}},
    ],
}


def test_a_report_is_read_whole() -> None:
    assert read_node_metric(STATUS, NOW_S, 30.0) == (
        Metric(
            NOW_S,
            {"cpu": 1500, "memory": 2 << 30},
            30.0,
            {"cpu": 100},
            (Window(300.0, {"avg": {"cpu": 1000}}),),
            {("d", "a"): PodReport({"cpu": 20}, is_prod=True, priority_class="koord-prod"), ("d", "b"): PodReport({})},
        ),
        (),
    )


def test_a_report_that_was_never_made() -> None:
    assert read_node_metric({}, NOW_S) == (Metric(None), ())


def test_a_report_without_a_time_is_named_and_old() -> None:
    metric, problems = read_node_metric({"nodeMetric": STATUS["nodeMetric"]}, NOW_S)
    assert [problem.field for problem in problems] == ["status.updateTime"]
    assert metric is not None
    assert is_expired(metric, NOW_S, 10**9)


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"updateTime": "yesterday"}, "status.updateTime"),
        ({"updateTime": "2026-01-02T03:04:36Z"}, "status.updateTime"),
        ({"updateTime": "9999-01-01T00:00:00Z"}, "status.updateTime"),
        ({"updateTime": 5}, "status"),
        ({"nodeMetric": []}, "status"),
        ({"podsMetric": [{"name": []}]}, "status"),
    ],
)
def test_a_report_that_cannot_be_used(status: dict[str, Any], field: str) -> None:
    metric, problems = read_node_metric(status, NOW_S)
    assert metric is None
    assert [problem.field for problem in problems] == [field]


def test_a_clock_may_be_a_little_ahead() -> None:
    metric, problems = read_node_metric({"updateTime": "2026-01-02T03:04:35Z"}, NOW_S)
    assert problems == ()
    assert metric is not None


def test_the_rest_goes_on() -> None:
    """What cannot be read is not known, which is not the same as unused."""
    broken = {"resources": {"cpu": "1", "memory": "-1"}}
    window = {"duration": "5m", "usage": {"avg": broken, "p95": {"resources": {"cpu": "2"}}}}
    usages = [{"duration": "soon", "usage": {}}, {"duration": "0"}, window]
    metric, problems = read_node_metric(
        {
            "updateTime": TIME,
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": "x"}}, "aggregatedNodeUsages": usages},
            "podsMetric": [{"namespace": "d", "name": "a", "podUsage": {"resources": ["cpu"]}}],
        },
        NOW_S,
    )
    assert metric is not None
    assert metric.node_usage is None
    assert metric.windows == (Window(300.0, {"p95": {"cpu": 2000}}),)
    assert [problem.field for problem in problems] == [
        "status.nodeMetric.nodeUsage.resources[cpu]",
        "status.nodeMetric.aggregatedNodeUsages[0].duration",
        "status.nodeMetric.aggregatedNodeUsages[1].duration",
        "status.nodeMetric.aggregatedNodeUsages[2].usage.avg.resources[memory]",
        "status.podsMetric[0].podUsage.resources",
    ]


def test_no_more_than_a_node_can_have() -> None:
    windows = [{"duration": "5m"}] * (WINDOWS_MAX + 5)
    pods = [{"name": f"p{at}"} for at in range(PODS_MAX + 5)]
    status = {"updateTime": TIME, "nodeMetric": {"aggregatedNodeUsages": windows}, "podsMetric": pods}
    metric, problems = read_node_metric(status, NOW_S)
    assert metric is not None
    assert len(metric.windows) == WINDOWS_MAX
    assert len(metric.pods) == PODS_MAX
    assert len(problems) == 2


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["resources", "nodeUsage", "usage", "avg", "duration", "podUsage", "cpu"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["updateTime", "nodeMetric", "podsMetric"]), plain))
def test_no_status_raises(status: dict[str, Any]) -> None:
    metric, problems = read_node_metric(status, NOW_S)
    assert metric is not None or problems
