"""`colocation-config`: by which rules a node lends. The ranges are the same wherever a field is written."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from berth.rules.node_strategies.shapes import NotNegative, Percent, Positive

USAGE: Final = "usage"
REQUEST: Final = "request"
MAX_USAGE_REQUEST: Final = "maxUsageRequest"
STATIC: Final = "static"
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
