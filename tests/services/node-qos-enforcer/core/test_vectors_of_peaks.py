"""Reference cases of predicted peaks: histograms, and what prod pods leave."""

import pytest

from berth.node_qos_enforcer.core.peaks.buckets import CPU_CORES, MEMORY_BYTES, Exponential, Linear
from berth.node_qos_enforcer.core.peaks.histogram import Histogram, Saved
from berth.node_qos_enforcer.core.peaks.models import CPU_HALF_LIFE_S, EPSILON, MEMORY_HALF_LIFE_S
from berth.node_qos_enforcer.core.peaks.reclaimable import PodPeak, Rule, by_pods, by_priority, reclaimable
from berth.testing.vectors import cases


def made(options):
    if options["kind"] == "linear":
        buckets = Linear(options["maxValue"], options["bucketSize"])
    else:
        buckets = Exponential(options["maxValue"], options["firstBucketSize"], options["ratio"])
    return Histogram(buckets, options["epsilon"], options.get("halfLifeSeconds"))


@pytest.mark.parametrize("case", cases("overcommit/histogram"))
def test_histogram(case):
    given, expect = case["given"], case["expect"]
    histogram = made(given["options"])
    for each in given.get("operations", ()):
        getattr(histogram, each["op"])(each["value"], each["weight"], each.get("atSeconds", 0.0))
    found = {
        "numBuckets": histogram.buckets.number,
        "bucketOf": [[value, histogram.buckets.of(value)] for value in given.get("values", ())],
        "bucketStart": [
            [bucket, pytest.approx(histogram.buckets.start(bucket), rel=1e-8)] for bucket in given.get("buckets", ())
        ],
        "empty": histogram.is_empty,
        "percentiles": [
            [share, pytest.approx(histogram.percentile(share), rel=1e-9)] for share in given.get("percentiles", ())
        ],
    }
    saved = histogram.saved()
    weights = {str(bucket): weight for bucket, weight in saved.weights.items()}
    found["checkpoint"] = {"totalWeight": pytest.approx(saved.total_weight, rel=1e-9), "bucketWeights": weights}
    assert expect == {name: found[name] for name in expect}


MODELS = {"cpu": (CPU_CORES, CPU_HALF_LIFE_S, 1000), "memory": (MEMORY_BYTES, MEMORY_HALF_LIFE_S, 1)}


@pytest.mark.parametrize("case", cases("node-qos/prediction-histogram"))
def test_percentiles(case):
    given, expect = case["given"], case["expect"]
    buckets, half_life_s, unit = MODELS[given["resource"]]
    histogram = Histogram(buckets, EPSILON, half_life_s, given["reference_seconds"])
    for at_s, value in given["samples"]:
        histogram.add(value, 1.0, at_s)
    assert histogram.buckets.number == expect["buckets"]
    found = {text: int(histogram.percentile(float(text)) * unit) for text in given["percentiles"]}
    assert found == expect["percentiles"]


def amounts(found, cpu="cpuMilli", memory="memoryBytes"):
    return {"cpu": found[cpu], "memory": found[memory]}


def peak(found):
    return amounts(found, "p95CpuMilli", "p98MemoryBytes") if "p95CpuMilli" in found else None


@pytest.mark.parametrize("case", cases("overcommit/prod_reclaimable"))
def test_reclaimable(case):
    given, expect = case["given"], case["expect"]
    rule = Rule(given["coldStartSeconds"], given["safetyMarginPercent"])
    pods = [
        PodPeak(
            each["priorityClass"],
            amounts(each["request"]),
            each["ageSeconds"],
            peak(each),
            is_alive=not each.get("terminating", False),
        )
        for each in given["pods"]
    ]
    items = {name: peak(found) for name, found in given["nodeItems"].items()}
    node = amounts(given["nodeAllocatable"])
    assert by_pods(rule, pods, node) == amounts(expect["byPods"])
    assert by_priority(rule, pods, items, node) == amounts(expect["byPriority"])
    assert reclaimable(rule, pods, items, node) == amounts(expect["prodReclaimable"])


def test_what_was_kept_is_taken_up_again():
    histogram = Histogram(CPU_CORES, EPSILON, CPU_HALF_LIFE_S)
    for second in range(0, 7200, 60):
        histogram.add(1.0 + second % 3, 1.0, 1_700_000_000.0 + second)
    other = Histogram(CPU_CORES, EPSILON, CPU_HALF_LIFE_S)
    other.restore(histogram.saved())
    assert other.percentile(0.95) == histogram.percentile(0.95)
    assert other.total == pytest.approx(histogram.total)


@pytest.mark.parametrize(
    "saved", [Saved(-1.0, {}), Saved(float("nan"), {}), Saved(1.0, {158: 1}), Saved(1.0, {-1: 1}), Saved(1.0, {0: -1})]
)
def test_what_no_histogram_has_kept_is_refused(saved):
    with pytest.raises(ValueError, match=r"weigh|bucket"):
        Histogram(CPU_CORES, EPSILON, CPU_HALF_LIFE_S).restore(saved)
