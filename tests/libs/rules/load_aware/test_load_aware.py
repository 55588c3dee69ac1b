"""Placement by measured load, against the reference cases, its own laws and what users may write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.libs.rules.load_aware import worlds
from tests.libs.rules.load_aware.worlds import score_of

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts
from berth.rules.cpus.qos import BATCH, FREE, MID, PROD
from berth.rules.load_aware.capacity import capacity_of
from berth.rules.load_aware.estimate import CPU_FLOOR, MEMORY_FLOOR, estimate_pod, estimated_until, factors_of
from berth.rules.load_aware.existing import Assigned, Existing, existing_of, node_load, prod_load
from berth.rules.load_aware.filter import EXPIRED, Incoming, Measured, too_busy
from berth.rules.load_aware.metric import Metric, PodReport, Window, is_expired, usage_of
from berth.rules.load_aware.thresholds import Aggregated, Thresholds, thresholds_of
from berth.rules.scheduler_config.load_aware import LoadAwareArgs, problems_of
from berth.testing.vectors import cases

NOW_S = worlds.NOW_S
GIB = 1 << 30
NOTHING = Existing({}, {}, {}, {})
ARGS = LoadAwareArgs().completed()


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/load_aware_aggregated"))
def test_aggregated(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]["usage"]
    metric = Metric(NOW_S, worlds.amounts(given["nodeUsage"]), windows=worlds.windows(given["aggregated"]))
    found = usage_of(metric, given["type"], given["durationSeconds"])
    assert (None if found is None else {name: found.get(name, 0) for name in expect}) == expect


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/load_aware_deadline"))
def test_deadline(case: dict[str, Any]) -> None:
    given = case["given"]
    true = {each["type"]: float(each["at"]) for each in given["conditions"] if each["status"] == "True"}
    scheduled_s = true.get("PodScheduled", float(given["assignedAt"]))
    found = estimated_until(
        worlds.args_of(given["args"]),
        given["annotations"],
        scheduled_s=scheduled_s,
        initialized_s=true.get("Initialized"),
    )
    assert found == case["expect"]["deadline"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/load_aware_estimate_pod"))
def test_estimate(case: dict[str, Any]) -> None:
    given = case["given"]
    args = LoadAwareArgs(estimated_scaling_factors=given["factors"], allow_customize_estimation=given["allowCustomize"])
    factors, _ = factors_of(args, given["pod"].get("annotations", {}))
    assert worlds.estimate(given["pod"], dict(factors)) == case["expect"]["estimate"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/load_aware_node_capacity"))
def test_capacity(case: dict[str, Any]) -> None:
    given = case["given"]
    text = given.get("rawAllocatableAnnotation")
    annotations = {} if text is None else {names.ANNOTATION_RAW_ALLOCATABLE: text}
    found, problem = capacity_of(worlds.amounts(given["allocatable"]), annotations)
    assert problem is None
    assert found == worlds.amounts(case["expect"]["allocatable"])


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/load_aware_filter"))
def test_filter(case: dict[str, Any]) -> None:
    args, node, pod = worlds.world(case["given"])
    assert too_busy(args, node, pod, NOW_S) == case["expect"]["reason"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/load_aware_score"))
def test_score(case: dict[str, Any]) -> None:
    args, node, pod = worlds.world(case["given"])
    assert score_of(args, node, pod, NOW_S) == case["expect"]["score"]


def measured(cpu: int, *, percent: dict[str, int] | None = None, age_s: float = 0, whole: int = 96_000) -> Measured:
    thresholds = Thresholds(ARGS.usage_thresholds if percent is None else percent, {})
    return Measured({names.CPU: whole}, thresholds, Metric(NOW_S - age_s, {names.CPU: cpu}), NOTHING)


def test_the_documented_border() -> None:
    pod = Incoming({names.CPU: CPU_FLOOR})
    assert too_busy(ARGS, measured(62_620), pod, NOW_S) == ""
    assert too_busy(ARGS, measured(62_630), pod, NOW_S) == "node(s) cpu usage exceed threshold"


def test_resources_are_named_in_order() -> None:
    node = Measured(
        {"cpu": 10, "memory": 10, "a": 10}, Thresholds({"memory": 1, "cpu": 1, "a": 0}, {}), Metric(NOW_S, {}), NOTHING
    )
    pod = Incoming({"cpu": 10, "memory": 10, "a": 10})
    assert "cpu" in too_busy(ARGS, node, pod, NOW_S)


def test_an_old_report() -> None:
    node, pod = measured(95_000, age_s=180), Incoming({})
    assert too_busy(ARGS, node, pod, NOW_S) == EXPIRED
    lenient = msgspec.structs.replace(ARGS, enable_schedule_when_node_metrics_expired=True)
    assert too_busy(lenient, node, pod, NOW_S) == ""
    used_all_the_same = msgspec.structs.replace(ARGS, filter_expired_node_metrics=False)
    assert too_busy(used_all_the_same, node, pod, NOW_S) == "node(s) cpu usage exceed threshold"
    assert score_of(used_all_the_same, node, pod, NOW_S) == 0


def test_a_node_that_reports_nothing() -> None:
    for metric in (None, Metric(NOW_S)):
        node = measured(0)._replace(metric=metric)
        assert too_busy(ARGS, node, Incoming({"cpu": 10**9}), NOW_S) == ""
        assert score_of(ARGS, node, Incoming({}), NOW_S) == 0


def test_thresholds_of_nothing_let_everything_in() -> None:
    node = measured(96_000, percent={"cpu": 0}, age_s=10**6)
    assert too_busy(ARGS, node, Incoming({}), NOW_S) == ""


def test_the_worst_of_all_tracked_resources_counts_alone() -> None:
    args = LoadAwareArgs(dominant_resource_weight=10).completed()
    assert not args.resource_weights
    capacity = {"cpu": 96_000, "memory": 512 * GIB}
    node = Measured(capacity, Thresholds({}, {}), Metric(NOW_S, {}), NOTHING)
    pod = Incoming({"cpu": 13_600, "memory": 32 * GIB * 7 // 10})
    assert score_of(args, node, pod, NOW_S) == 85
    tracking = msgspec.structs.replace(args, supported_resources=("example.com/thing",))
    assert score_of(tracking, node, pod, NOW_S) == 0


def test_without_weights_there_is_no_score() -> None:
    assert score_of(LoadAwareArgs(), measured(0), Incoming({}), NOW_S) == 0


@pytest.mark.parametrize(
    ("priority_class", "expected"),
    [
        (PROD, {"cpu": 850, "memory": MEMORY_FLOOR}),
        ("", {"cpu": 850, "memory": MEMORY_FLOOR}),
        (BATCH, {"cpu": CPU_FLOOR, "memory": MEMORY_FLOOR}),
        (MID, {"cpu": 0, "memory": 0}),
        (FREE, {"cpu": 0, "memory": 0}),
    ],
)
def test_each_class_has_names_of_its_own(priority_class: str, expected: Amounts) -> None:
    assert estimate_pod({"cpu": 1000}, {}, priority_class, ARGS.estimated_scaling_factors) == expected


def test_batch_counts_in_native_cpu() -> None:
    assert estimate_pod({names.BATCH_CPU: 4000}, {}, BATCH, {"cpu": 85}) == {"cpu": 3400}


def test_factors_of_a_pod() -> None:
    args = msgspec.structs.replace(ARGS, allow_customize_estimation=True)
    name = names.ANNOTATION_ESTIMATED_FACTORS
    assert factors_of(args, {name: '{"cpu": 50}'}) == ({"cpu": 50, "memory": 70}, None)
    many = msgspec.json.encode({f"r{at}": 1 for at in range(65)}).decode()
    for text in ("[]", '{"cpu": "50"}', '{"cpu": -1}', "{" * 70_000, many):
        factors, problem = factors_of(args, {name: text})
        assert factors == ARGS.estimated_scaling_factors
        assert problem is not None
        assert name in problem.field


@pytest.mark.parametrize("text", ["-1", "1.5", "x", "", "9" * 30])
def test_a_malformed_duration_of_a_pod_leaves_the_argument(text: str) -> None:
    args = LoadAwareArgs(allow_customize_estimation=True, estimated_seconds_after_pod_scheduled=30)
    annotations = {names.ANNOTATION_ESTIMATED_AFTER_SCHEDULED: text}
    assert estimated_until(args, annotations, scheduled_s=5, initialized_s=None) == 35


def test_thresholds_of_a_node() -> None:
    args = LoadAwareArgs(prod_usage_thresholds={"cpu": 50}).completed()
    text = (
        '{"usageThresholds": {"memory": 40}, "prodUsageThresholds": {}, '
        '"aggregatedUsage": {"usageThresholds": {"cpu": 30}, "usageAggregationType": "p95", '
        '"usageAggregatedDuration": "5m0s"}}'
    )
    found, problem = thresholds_of(args, {names.ANNOTATION_USAGE_THRESHOLDS: text})
    assert problem is None
    assert found == Thresholds({"memory": 40}, {"cpu": 50}, Aggregated({"cpu": 30}, "p95", 300.0))


@pytest.mark.parametrize(
    "text",
    [
        "x",
        '{"usageThresholds": {"cpu": 101}}',
        '{"prodUsageThresholds": {"cpu": -1}}',
        '{"aggregatedUsage": {"usageThresholds": {"cpu": 1}, "usageAggregationType": "p95", '
        '"usageAggregatedDuration": "5 minutes"}}',
        '{"aggregatedUsage": {"usageThresholds": {"cpu": 200}}}',
        msgspec.json.encode({"usageThresholds": {f"r{at}": 1 for at in range(65)}}).decode(),
    ],
)
def test_malformed_thresholds_of_a_node_say_nothing(text: str) -> None:
    found, problem = thresholds_of(ARGS, {names.ANNOTATION_USAGE_THRESHOLDS: text})
    assert found == Thresholds(ARGS.usage_thresholds, {})
    assert problem is not None
    assert names.ANNOTATION_USAGE_THRESHOLDS in problem.field


@pytest.mark.parametrize("text", ["x", '{"cpu": "-1"}', '{"cpu": "many"}', '{"cpu": []}'])
def test_a_malformed_capacity_says_nothing(text: str) -> None:
    found, problem = capacity_of({"cpu": 5}, {names.ANNOTATION_RAW_ALLOCATABLE: text})
    assert found == {"cpu": 5}
    assert problem is not None
    assert names.ANNOTATION_RAW_ALLOCATABLE in problem.field


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"usageThresholds": {"cpu": 101}}, "usageThresholds[cpu]"),
        ({"prodUsageThresholds": {"cpu": -1}}, "prodUsageThresholds[cpu]"),
        ({"aggregated": {"usageThresholds": {"cpu": 101}}}, "aggregated.usageThresholds[cpu]"),
        ({"aggregated": {"usageAggregatedDuration": "5"}}, "aggregated.usageAggregatedDuration"),
        ({"aggregated": {"scoreAggregatedDuration": "-5m"}}, "aggregated.scoreAggregatedDuration"),
        ({"resourceWeights": {"cpu": 0}}, "resourceWeights[cpu]"),
        ({"resourceWeights": {"example.com/x": 1}}, "estimatedScalingFactors"),
        ({"estimatedScalingFactors": {"cpu": 101}}, "estimatedScalingFactors[cpu]"),
        ({"dominantResourceWeight": -1}, "dominantResourceWeight"),
        ({"nodeMetricExpirationSeconds": 0}, "nodeMetricExpirationSeconds"),
        ({"estimatedSecondsAfterInitialized": -1}, "estimatedSecondsAfterInitialized"),
        ({"estimator": "other"}, "estimator"),
    ],
)
def test_arguments_that_are_refused_are_named(given: dict[str, Any], field: str) -> None:
    found = list(problems_of(msgspec.convert(given, LoadAwareArgs).completed(), "args"))
    assert [problem.field for problem in found] == [f"args.{field}"]


def test_defaults() -> None:
    assert list(problems_of(ARGS, "args")) == []
    assert ARGS.usage_thresholds == {"cpu": 65, "memory": 95}
    assert ARGS.resource_weights == {"cpu": 1, "memory": 1}
    only_memory = LoadAwareArgs(usage_thresholds={"memory": 10}, estimated_scaling_factors={"x": 5}).completed()
    assert only_memory.usage_thresholds == {"memory": 10}
    assert only_memory.estimated_scaling_factors == {"cpu": 85, "memory": 70, "x": 5}


def test_sums_of_prod_pods() -> None:
    metric = Metric(
        NOW_S,
        {"cpu": 50},
        system_usage={"cpu": 7},
        pods={
            "prod": PodReport({"cpu": 10}, is_prod=True),
            "taken-for-another": PodReport({"cpu": 3}),
            "of-others": PodReport({"cpu": 4}, is_prod=True),
        },
    )
    long_ago = NOW_S - 1000
    pods = [
        Assigned("prod", {"cpu": 100}, long_ago, is_prod=True),
        Assigned("taken-for-another", {"cpu": 20}, long_ago, is_prod=True),
        Assigned("fresh", {"cpu": 5}, NOW_S, is_prod=True),
        Assigned("batch", {"cpu": 1}, NOW_S),
    ]
    existing = existing_of(metric, pods)
    assert existing == Existing({"cpu": 126}, {"cpu": 6}, {"cpu": 10}, {"cpu": 25})
    assert prod_load(metric, existing) == {"cpu": 35}
    assert prod_load(metric, existing, with_system=True) == {"cpu": 42}
    assert node_load(metric, existing) == {"cpu": 56}
    assert node_load(metric, existing, "p95", 300) == {"cpu": 126}


amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 10**12), max_size=2)
assigned = st.builds(
    Assigned,
    key=st.integers(0, 3),
    estimate=amounts,
    scheduled_s=st.floats(-500, 500),
    until_s=st.one_of(st.none(), st.floats(-500, 500)),
    is_prod=st.booleans(),
)
metrics = st.builds(
    Metric,
    updated_s=st.one_of(st.none(), st.floats(-500, 500)),
    node_usage=amounts,
    windows=st.lists(
        st.builds(
            Window,
            st.sampled_from([60.0, 300.0]),
            st.dictionaries(st.sampled_from(["avg", "p95"]), amounts, max_size=2),
        ),
        max_size=3,
    ).map(tuple),
    pods=st.dictionaries(st.integers(0, 3), st.builds(PodReport, amounts, st.booleans()), max_size=4),
)


@given(metrics, st.lists(assigned, max_size=6), st.randoms())
def test_sums_do_not_depend_on_the_order(metric: Metric, pods: list[Assigned], random: Any) -> None:
    shuffled = list(pods)
    random.shuffle(shuffled)
    one, other = existing_of(metric, pods), existing_of(metric, shuffled)
    assert one == other
    for name, amount in one.unmeasured.items():
        assert 0 <= amount <= one.estimated[name]


@given(metrics, st.lists(assigned, max_size=6), assigned, st.sampled_from(["", "avg", "p95"]), st.sampled_from([0, 60]))
def test_one_more_pod_never_makes_a_node_idler(
    metric: Metric, pods: list[Assigned], more: Assigned, aggregation: str, duration_s: float
) -> None:
    before = node_load(metric, existing_of(metric, pods), aggregation, duration_s)
    after = node_load(metric, existing_of(metric, [*pods, more]), aggregation, duration_s)
    assert all(after.get(name, 0) >= amount for name, amount in before.items())


@given(st.integers(0, 200_000), st.integers(0, 200_000), st.integers(1, 200_000))
def test_scores_are_between_0_and_100_and_fall_with_load(cpu: int, more: int, whole: int) -> None:
    pod = Incoming({})
    low, high = (score_of(ARGS, measured(each, whole=whole), pod, NOW_S) for each in (cpu, cpu + more))
    assert 0 <= high <= low <= 100


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.text(max_size=30)), st.text(max_size=60))
def test_no_annotation_raises(other: dict[str, str], text: str) -> None:
    args = msgspec.structs.replace(ARGS, allow_customize_estimation=True)
    every = {
        **other,
        names.ANNOTATION_USAGE_THRESHOLDS: text,
        names.ANNOTATION_RAW_ALLOCATABLE: text,
        names.ANNOTATION_ESTIMATED_FACTORS: text,
        names.ANNOTATION_ESTIMATED_AFTER_INITIALIZED: text,
    }
    for _, problem in (thresholds_of(args, every), capacity_of({}, every), factors_of(args, every)):
        assert problem is None or isinstance(problem, Problem)
    estimated_until(args, every, scheduled_s=0, initialized_s=0)


def test_the_border_of_age() -> None:
    assert is_expired(Metric(NOW_S - 180), NOW_S, 180)
    assert not is_expired(Metric(NOW_S - 179), NOW_S, 180)
    assert is_expired(Metric(None), NOW_S, 180)
    assert not is_expired(Metric(NOW_S + 30), NOW_S, 180)
    assert is_expired(Metric(NOW_S + 31), NOW_S, 180)
