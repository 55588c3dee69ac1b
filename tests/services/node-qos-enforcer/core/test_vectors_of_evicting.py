"""Reference cases of evictions: which features run, how much is released, who leaves first, one round of it."""

import msgspec
import pytest

from berth.contracts import names
from berth.node_qos_enforcer.core.evicting.release import release_by_allocatable, release_by_usage, usage_percent
from berth.node_qos_enforcer.core.evicting.rounds import Task, missing, run_round
from berth.node_qos_enforcer.core.evicting.satisfaction import BestEffort, Satisfaction, release_by_satisfaction
from berth.node_qos_enforcer.core.evicting.victims import Victim, victims_of
from berth.rules.cpus.qos import priority_class_or_default
from berth.rules.node_evictions.candidates import Candidate, allows
from berth.rules.node_evictions.class_request import class_request
from berth.rules.node_evictions.features import (
    BE_CPU,
    BE_MEMORY,
    CPU_REQUESTS,
    CPU_USE,
    FEATURES,
    MEMORY_REQUESTS,
    levels,
    runs,
)
from berth.rules.node_evictions.thresholds import SECTION, Thresholds, read_thresholds
from berth.testing.vectors import cases

LABELS = {
    "qos": names.LABEL_QOS,
    "priority_class_label": names.LABEL_PRIORITY_CLASS,
    "eviction_enabled": names.LABEL_EVICTION_ENABLED,
    "priority_label": names.LABEL_PRIORITY,
}
ANNOTATIONS = {
    "eviction_policy": names.ANNOTATION_EVICTION_POLICY,
    "eviction_priority": names.ANNOTATION_EVICTION_PRIORITY,
}


def candidate(pod):
    labels = {label: pod[name] for name, label in LABELS.items() if pod.get(name)}
    annotations = {label: pod[name] for name, label in ANNOTATIONS.items() if pod.get(name) is not None}
    return Candidate(labels, annotations, pod.get("priority"), "", pod.get("phase", "Running"))


def requested(pod, resource):
    """What it requests of the resource, by the name of its class."""
    asked = candidate(pod)
    total = {}
    for container in pod["containers"]:
        for name, amount in container.items():
            total[name] = total.get(name, 0) + amount
    return class_request(priority_class_or_default(asked.labels, asked.priority, ""), resource, total)


@pytest.mark.parametrize("case", cases("node-qos/evict-config-check"))
def test_which_features_run(case):
    thresholds = read_thresholds({SECTION: case["given"]["config"]})
    assert runs(FEATURES[case["given"]["feature"]], thresholds) == case["expect"]["valid"]


@pytest.mark.parametrize("case", cases("node-qos/evict-policy-annotation"))
def test_what_a_pod_allows(case):
    assert allows(case["given"]["policy"], case["given"]["annotations"] or {}) == case["expect"]["allowed"]


@pytest.mark.parametrize("case", cases("node-qos/evict-release-by-usage"))
def test_release_by_usage(case):
    given, expect = case["given"], case["expect"]
    # With no lower level the feature's own default holds.
    config = {
        "cpuEvictThresholdPercent": given["threshold_percent"],
        "cpuEvictLowerPercent": given.get("lower_percent"),
    }
    found = levels(CPU_USE, msgspec.convert(config, Thresholds))
    lower = given.get("lower_percent") if found is None else found.lower
    assert usage_percent(given["capacity"], given["used"]) == expect["usage_percent"]
    released = release_by_usage(
        given["capacity"], given["used"], threshold_percent=given["threshold_percent"], lower_percent=lower
    )
    assert released == expect["release"]


@pytest.mark.parametrize("case", cases("node-qos/evict-release-by-allocatable"))
def test_release_by_allocatable(case):
    given = case["given"]
    pods = [pod for pod in given["pods"] if candidate(pod).priority_value <= given["priority_threshold"]]
    released = release_by_allocatable(
        given["resource"],
        [requested(pod, given["resource"]) for pod in pods],
        given["allocatable"] or {},
        threshold_percent=given["threshold_percent"],
        lower_percent=given["lower_percent"],
    )
    assert released == case["expect"]["release"]


@pytest.mark.parametrize("case", cases("node-qos/pod-request-by-class"))
def test_request_by_class(case):
    expect = case["expect"]
    assert requested(case["given"]["pod"], case["given"]["resource"]) == (expect["resource"], expect["amount"])


def best_effort(found):
    return BestEffort(found["limit_milli"], found["used_milli"], found["request_milli"], found.get("count", 1))


@pytest.mark.parametrize("case", cases("node-qos/be-satisfaction-release"))
def test_release_by_satisfaction(case):
    given = case["given"]
    rule = Satisfaction(
        given["lower_percent"],
        given["upper_percent"],
        window_s=given.get("window_seconds") or 0,
        interval_s=given["collect_interval_seconds"],
        policy=given["policy"],
        usage_percent=given["usage_threshold_percent"],
        allocatable_milli=given["batch_cpu_allocatable_milli"],
    )
    average, current = best_effort(given["average"]), best_effort(given["current"])
    assert release_by_satisfaction(rule, average, current) == case["expect"]["release_milli"]


SORTERS = {"be-cpu": BE_CPU, "be-memory": BE_MEMORY}


@pytest.mark.parametrize("case", cases("node-qos/evict-victim-order"))
def test_order_of_victims(case):
    given = case["given"]
    feature = FEATURES[given["feature"]]
    assert SORTERS.get(given["sorter"], feature) == feature
    assert (given["sorter"] == "by-request") == (feature in (CPU_REQUESTS, MEMORY_REQUESTS))
    threshold = given.get("priority_threshold")
    thresholds = Thresholds(evict_enabled_priority_threshold=threshold, allocatable_evict_priority_threshold=threshold)
    pods = [
        Victim(pod["name"], pod["name"], candidate(pod), pod.get("used"), pod.get("request") or 0)
        for pod in given["pods"]
    ]
    assert [each.name for each in victims_of(feature, thresholds, pods)] == case["expect"]["order"]


@pytest.mark.parametrize("case", cases("node-qos/evict-task-check"))
def test_what_a_task_misses(case):
    given = case["given"]
    found = missing(given["accumulator"], given["to_release"], given["released"])
    assert (not found, found or None) == (case["expect"]["done"], case["expect"]["missing"])


@pytest.mark.parametrize("case", cases("node-qos/evict-round"))
def test_round(case):
    given, expect = case["given"], case["expect"]
    tasks = [Task(each["accumulator"], each["to_release"], each["victims"], each["counts"]) for each in given["tasks"]]
    leaving, fails = given.get("already_evicted") or (), given.get("eviction_fails") or ()
    found = run_round(tasks, is_leaving=leaving.__contains__, evict=lambda _, pod, __: pod not in fails)
    assert found.leaving == expect["evicted"]
    assert found.released == expect["released"]
    assert found.newly == expect["newly_evicted"]
    assert [missing(each.accumulator, each.to_release, found.released) for each in tasks] == expect["unmet"]
