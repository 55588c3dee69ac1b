"""`colocation-config`: by which rules a node lends.

What holds on a node is the cluster's strategy, or the first of `nodeConfigs` whose selector matches, overlaid with the
node's annotation, overlaid with its labels. The ranges are the same wherever a field is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.state import Node
from berth.rules.bounded_json import annotation_field, label_field, read_annotation
from berth.slo_manager.core.overlay import overlay
from berth.slo_manager.core.shapes import NotNegative, Percent, Positive, check

USAGE: Final = "usage"
REQUEST: Final = "request"
MAX_USAGE_REQUEST: Final = "maxUsageRequest"
STATIC: Final = "static"
_RATIO_LENGTH_MAX: Final = 32
_RATIO_MAX: Final = Decimal(1_000_000)
_UPPER: Final = {"cpu": "CPU"}


def _camel(name: str) -> str:
    first, *words = name.split("_")
    return first + "".join(_UPPER.get(word, word.capitalize()) for word in words)


class AggregatePolicy(msgspec.Struct, frozen=True, rename=_camel):
    """Over which times usage is summed up."""

    durations: list[str] | None = None


class Colocation(msgspec.Struct, frozen=True, kw_only=True, rename=_camel):
    """A strategy with its defaults. Percentages are of a node's capacity; None: no cap."""

    enable: bool = False
    metric_aggregate_duration_seconds: Positive = 300
    metric_report_interval_seconds: Positive = 60
    metric_aggregate_policy: AggregatePolicy | None = None
    metric_memory_collect_policy: Annotated[str, Meta(min_length=1)] = "usageWithoutPageCache"
    cpu_reclaim_threshold_percent: NotNegative = 60
    memory_reclaim_threshold_percent: NotNegative = 65
    cpu_calculate_policy: Literal["usage", "maxUsageRequest"] = "usage"
    memory_calculate_policy: Literal["usage", "request", "maxUsageRequest"] = "usage"
    degrade_time_minutes: Positive = 15
    update_time_threshold_seconds: Positive = 300
    resource_diff_threshold: Annotated[float, Meta(gt=0, le=1)] = 0.1
    mid_cpu_threshold_percent: Percent = 100
    mid_memory_threshold_percent: Percent = 100
    mid_unallocated_percent: Percent = 0
    batch_cpu_threshold_percent: NotNegative | None = None
    batch_memory_threshold_percent: NotNegative | None = None
    mid_reclaim_mode: Literal["", "dynamic", "static"] = ""
    mid_static_cpu_reserved_percent: Percent = msgspec.field(default=0, name="midStaticCPUReservedPercent")
    mid_static_memory_reserved_percent: Percent = 0
    extensions: dict[str, Any] | None = None


DEFAULT: Final[dict[str, Any]] = {
    "enable": False,
    "metricAggregateDurationSeconds": 300,
    "metricReportIntervalSeconds": 60,
    "metricAggregatePolicy": {"durations": ["5m", "10m", "30m"]},
    "metricMemoryCollectPolicy": "usageWithoutPageCache",
    "cpuReclaimThresholdPercent": 60,
    "memoryReclaimThresholdPercent": 65,
    "cpuCalculatePolicy": USAGE,
    "memoryCalculatePolicy": USAGE,
    "degradeTimeMinutes": 15,
    "updateTimeThresholdSeconds": 300,
    "resourceDiffThreshold": 0.1,
    "midCPUThresholdPercent": 100,
    "midMemoryThresholdPercent": 100,
    "midUnallocatedPercent": 0,
}
_RATIOS: Final = {
    names.LABEL_CPU_RECLAIM_RATIO: "cpuReclaimThresholdPercent",
    names.LABEL_MEMORY_RECLAIM_RATIO: "memoryReclaimThresholdPercent",
    names.LABEL_MID_CPU_RATIO: "midStaticCPUReservedPercent",
    names.LABEL_MID_MEMORY_RATIO: "midStaticMemoryReservedPercent",
}


class NodeStrategy(NamedTuple):
    """What holds on a node, and what on the node says otherwise and cannot be used."""

    value: Mapping[str, Any]
    problems: tuple[Problem, ...]


def strategy_of(base: Mapping[str, Any], node: Node, *, as_reference: bool = False) -> NodeStrategy:
    """Lay what a node says of itself over the strategy that is configured for it.

    What is out of range on the node counts for nothing, each source by itself.

    Args:
        base: what the configuration has for the node.
        node: with labels and annotations.
        as_reference: read ratios in binary floating point as the reference does, where `0.29` is 28 percent.
    """
    value, problems = dict(base), list[Problem]()
    said = read_annotation(node.annotations, names.ANNOTATION_COLOCATION_STRATEGY, dict[str, Any])
    if isinstance(said, Problem):
        problems.append(said)
    elif said is not None:
        value = _over(value, said, annotation_field(names.ANNOTATION_COLOCATION_STRATEGY), problems)
    for label, field in _RATIOS.items():
        text = node.labels.get(label)
        if text is None:
            continue
        percent = _percent(text, as_reference=as_reference)
        if percent is None:
            problems.append(Problem(field=label_field(label), message="is no number from 0 on"))
        else:
            value = _over(value, {field: percent}, label_field(label), problems)
    return NodeStrategy(value, tuple(problems))


def _over(value: dict[str, Any], said: Mapping[str, Any], field: str, problems: list[Problem]) -> dict[str, Any]:
    merged = overlay(value, said)
    problem = check(merged, Colocation, field)
    if problem is None:
        return merged
    problems.append(problem)
    return value


def _percent(text: str, *, as_reference: bool) -> int | None:
    if len(text) > _RATIO_LENGTH_MAX or not text.isascii():
        return None
    try:
        ratio = Decimal(text)
    except InvalidOperation:
        return None
    if not ratio.is_finite() or not 0 <= ratio <= _RATIO_MAX:
        return None
    return int(float(text) * 100) if as_reference else int(ratio * 100)
