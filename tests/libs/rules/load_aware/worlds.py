"""From a case of the reference to what the rules take."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from berth.contracts.kube import PodSpec
from berth.resources.amounts import Amounts, add, parse_amounts
from berth.resources.pod_request import limits_of, request_of
from berth.rules.cpus.qos import PROD, ContainerSize, kube_qos_class, priority_class_or_default
from berth.rules.load_aware.capacity import capacity_of
from berth.rules.load_aware.estimate import estimate_pod
from berth.rules.load_aware.existing import Assigned, existing_of, node_load, prod_load
from berth.rules.load_aware.filter import Incoming, Measured
from berth.rules.load_aware.metric import Metric, PodReport, Window, is_expired
from berth.rules.load_aware.score import rate
from berth.rules.load_aware.thresholds import thresholds_of
from berth.rules.scheduler_config.load_aware import LoadAwareArgs, duration_s

NOW_S = 1_000_000.0


def amounts(given: Any) -> Amounts:
    found, problems = parse_amounts(given, "amounts")
    assert problems == []
    return found


def with_durations(given: dict[str, Any]) -> dict[str, Any]:
    """Durations of cases are numbers of seconds, those of the API texts."""
    return {
        name.removesuffix("Seconds") if name.endswith("DurationSeconds") else name: (
            f"{value}s" if name.endswith("DurationSeconds") else value
        )
        for name, value in given.items()
    }


def args_of(given: dict[str, Any]) -> LoadAwareArgs:
    fields = {name: value for name, value in given.items() if value is not None}
    if "aggregated" in fields:
        fields["aggregated"] = with_durations(fields["aggregated"])
    return msgspec.convert(fields, LoadAwareArgs)


def windows(given: list[dict[str, Any]]) -> tuple[Window, ...]:
    return tuple(
        Window(each["durationSeconds"], {kind: amounts(usage) for kind, usage in each["usage"].items()})
        for each in given
    )


def priority_class(pod: dict[str, Any]) -> str:
    containers = [*pod.get("containers", []), *pod.get("initContainers", [])]
    sizes = [ContainerSize(amounts(each.get("requests")), amounts(each.get("limits"))) for each in containers]
    return priority_class_or_default(pod.get("labels", {}), pod.get("priority"), kube_qos_class(sizes))


def estimate(pod: dict[str, Any], factors: dict[str, int]) -> Amounts:
    containers = {
        part: [
            {
                "name": f"{part}{at}",
                "resources": {name: each[name] for name in ("requests", "limits") if name in each},
                "restartPolicy": each.get("restartPolicy", ""),
            }
            for at, each in enumerate(pod.get(part, []))
        ]
        for part in ("containers", "initContainers")
    }
    spec = msgspec.convert({**containers, "overhead": pod.get("overhead")}, PodSpec)
    return estimate_pod(request_of(spec)[0], limits_of(spec)[0], priority_class(pod), factors)


def key(pod: dict[str, Any]) -> tuple[str, str]:
    return (pod.get("namespace", ""), pod.get("name", ""))


def metric_of(given: dict[str, Any] | None) -> Metric | None:
    if given is None:
        return None
    ago = given.get("updatedSecondsAgo")
    usage = given.get("nodeUsage")
    return Metric(
        updated_s=None if ago is None else NOW_S - ago,
        node_usage=None if usage is None else amounts(usage),
        report_interval_s=given.get("reportIntervalSeconds", 60),
        system_usage=amounts(given.get("systemUsage")),
        windows=windows(given.get("aggregated", [])),
        pods={key(pod): PodReport(amounts(pod["usage"]), pod.get("priority") == PROD) for pod in given.get("pods", [])},
    )


def world(given: dict[str, Any]) -> tuple[LoadAwareArgs, Measured, Incoming]:
    args = args_of(given["args"])
    factors = args.estimated_scaling_factors
    annotations = {}
    if "nodeCustomThresholds" in given:
        custom = {
            part: with_durations(value) if isinstance(value, dict) else value
            for part, value in given["nodeCustomThresholds"].items()
        }
        annotations["scheduling.koordinator.sh/usage-thresholds"] = msgspec.json.encode(custom).decode()
    if given["node"].get("rawAllocatable"):
        raw = msgspec.json.encode(given["node"]["rawAllocatable"]).decode()
        annotations["node.koordinator.sh/raw-allocatable"] = raw
    thresholds, problem = thresholds_of(args, annotations)
    assert problem is None
    capacity, problem = capacity_of(amounts(given["node"]["allocatable"]), annotations)
    assert problem is None
    metric = metric_of(given["metric"])
    pods = [
        Assigned(
            key(pod),
            estimate(pod, factors),
            NOW_S - pod.get("scheduledSecondsAgo", 0),
            None if pod.get("estimateUntilSecondsAgo") is None else NOW_S - pod["estimateUntilSecondsAgo"],
            priority_class(pod) == PROD,
        )
        for pod in given["existingPods"]
    ]
    existing = existing_of(metric or Metric(None), pods)
    pod = given["pod"]
    incoming = Incoming(estimate(pod, factors), priority_class(pod) == PROD, pod.get("ownerKinds", []))
    return args, Measured(capacity, thresholds, metric, existing), incoming


def score_of(args: LoadAwareArgs, node: Measured, pod: Incoming, now_s: float) -> int:
    """The score of one node, by the load that counts for such a pod; 0 where nobody knows what is used there now."""
    metric = node.metric
    if metric is None or metric.node_usage is None or is_expired(metric, now_s, args.node_metric_expiration_seconds):
        return 0
    if pod.is_prod and args.score_according_prod_usage:
        load = prod_load(metric, node.existing, with_system=args.prod_usage_include_sys)
    else:
        length_s = duration_s(args.aggregated.score_aggregated_duration) or 0.0
        load = node_load(metric, node.existing, args.aggregated.score_aggregation_type, length_s)
    names = sorted({*args.tracked, *args.resource_weights})
    columns = [
        np.array([[each.get(name, 0)] for name in names], np.int64).reshape(len(names), 1)
        for each in (add(load, pod.estimate), node.capacity)
    ]
    weights = np.array([args.resource_weights.get(name, 0) for name in names], np.int64)
    return int(rate(*columns, weights, args.dominant_resource_weight)[0])
