"""METRICS as the rules take it, and pods of STATE."""

from __future__ import annotations

from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.metrics import NodeMetrics, PodUsage, Usage, UsageWindow
from berth.contracts.state import PodTemplate
from berth.rules.load_aware.agent_report import read_agent_report
from berth.rules.load_aware.existing import Assigned
from berth.rules.load_aware.filter import Incoming
from berth.rules.load_aware.metric import Metric, PodReport, Window
from berth.rules.load_aware.node_metric import PODS_MAX, WINDOWS_MAX
from berth.rules.load_aware.pods import assigned_of, incoming_of, scheduled_at
from berth.rules.scheduler_config import LoadAwareArgs
from berth.rules.times import unix_of
from berth.testing.builders import pod

STORED_S = 1_000.5
ARGS = LoadAwareArgs().completed()
TIME = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:05:05Z"


def used(cpu: int, memory: int = 7) -> Usage:
    return Usage(cpu_milli=cpu, memory_bytes=memory)


MESSAGE = NodeMetrics(
    node="n",
    measured_at=5.0,
    interval_s=10.0,
    memory_total_bytes=100,
    node_usage=used(30),
    system_usage=used(3),
    pods=[PodUsage(uid="u", qos="burstable", usage=used(4))],
    windows=[UsageWindow(duration_s=300, avg=used(1), p50=used(2), p90=used(3), p95=used(4), p99=used(5))],
)


def test_a_report_is_read_whole_with_the_time_of_the_bus() -> None:
    each = {name: {"cpu": cpu, "memory": 7} for cpu, name in enumerate(("avg", "p50", "p90", "p95", "p99"), 1)}
    assert read_agent_report(MESSAGE, STORED_S) == (
        Metric(
            STORED_S,
            {"cpu": 30, "memory": 7},
            60.0,
            {"cpu": 3, "memory": 7},
            (Window(300.0, each),),
            {"u": PodReport({"cpu": 4, "memory": 7}, is_prod=True)},
        ),
        (),
    )


@pytest.mark.parametrize("changes", [{"interval_s": 0.0}, {"memory_total_bytes": 0}])
def test_an_agent_that_has_measured_nothing_yet_says_nothing(changes: dict[str, float]) -> None:
    assert read_agent_report(msgspec.structs.replace(MESSAGE, **changes), STORED_S) == (None, ())


def test_what_cannot_be_is_named_and_the_rest_goes_on() -> None:
    message = msgspec.structs.replace(
        MESSAGE,
        system_usage=used(-1),
        pods=[PodUsage(uid="v", qos="", usage=used(-4)), *MESSAGE.pods],
        windows=[UsageWindow(duration_s=0), UsageWindow(duration_s=60, p90=used(-1)), *MESSAGE.windows],
    )
    metric, problems = read_agent_report(message, STORED_S)
    assert metric is not None
    assert [problem.field for problem in problems] == [
        "system_usage",
        "windows[0].duration_s",
        "windows[1]",
        "pods[0].usage",
    ]
    assert metric.system_usage == {}
    assert list(metric.pods) == ["u"]
    assert [window.duration_s for window in metric.windows] == [300.0]


def test_a_node_cannot_use_less_than_nothing() -> None:
    metric, problems = read_agent_report(msgspec.structs.replace(MESSAGE, node_usage=used(-1)), STORED_S)
    assert metric is None
    assert [problem.field for problem in problems] == ["node_usage"]


def test_no_more_than_a_node_can_have() -> None:
    message = msgspec.structs.replace(
        MESSAGE,
        pods=[PodUsage(uid=f"u{at}", qos="") for at in range(PODS_MAX + 2)],
        windows=[UsageWindow(duration_s=at + 1) for at in range(WINDOWS_MAX + 2)],
    )
    metric, problems = read_agent_report(message, STORED_S)
    assert metric is not None
    assert (len(metric.pods), len(metric.windows), len(problems)) == (PODS_MAX, WINDOWS_MAX, 2)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
def test_no_message_raises(cpu: int, memory: int, interval_s: float) -> None:
    message = msgspec.structs.replace(MESSAGE, node_usage=used(cpu, memory), interval_s=interval_s)
    metric, problems = read_agent_report(message, STORED_S)
    assert metric is None or not problems


def test_a_pod_that_nobody_has_seen_bound_counts_as_not_measured() -> None:
    waiting = pod("p").requests(cpu=1000).build(1)
    assert scheduled_at(waiting) == inf
    assert assigned_of(ARGS, "k", waiting.template, waiting).scheduled_s == inf
    assert assigned_of(ARGS, "k", waiting.template).scheduled_s == inf


def test_a_bound_pod_counts_from_its_condition_on() -> None:
    bound = pod("p").requests(cpu=1000).on("n").set(scheduled=TIME, started=LATER, initialized=LATER).build(1)
    args = LoadAwareArgs(estimated_seconds_after_initialized=5).completed()
    assert assigned_of(args, "k", bound.template, bound) == Assigned(
        "k", {"cpu": 850, "memory": 200 << 20}, unix_of(TIME), (unix_of(LATER) or 0.0) + 5, False
    )
    assert scheduled_at(msgspec.structs.replace(bound, scheduled="")) == unix_of(LATER)
    for text in ("", "soon"):
        assert scheduled_at(msgspec.structs.replace(bound, scheduled=text, started="")) == inf


def test_limits_and_the_class_of_a_pod_count() -> None:
    template = PodTemplate(requests={"cpu": 1000}, limits={"cpu": 4000}, kube_qos="Burstable")
    assert incoming_of(ARGS, template, ["Job"]) == Incoming({"cpu": 3400, "memory": 200 << 20}, True, ("Job",))
    batch = PodTemplate(
        requests={names.BATCH_CPU: 2000}, kube_qos="BestEffort", annotations={names.ANNOTATION_ESTIMATED_FACTORS: "{}"}
    )
    assert incoming_of(ARGS, batch) == Incoming({"cpu": 1700, "memory": 200 << 20}, False)
