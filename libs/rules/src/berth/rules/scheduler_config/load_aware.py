"""Koordinator's LoadAwareSchedulingArgs: shape, defaults, and what is refused in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, Self, TypeAlias

import msgspec

from berth.contracts.base import Integer, Problem
from berth.contracts.names import CPU, MEMORY
from berth.rules.durations import parse_duration_s
from berth.rules.scheduler_config.shapes import Args, Strict

AggregationType: TypeAlias = Literal["avg", "p50", "p90", "p95", "p99", ""]

PERCENT_MAX: Final = 100
RESOURCES_MAX: Final = 64
SECONDS_MAX: Final = 24 * 3600
ESTIMATOR: Final = "defaultEstimator"
DEFAULT_THRESHOLDS: Final[Mapping[str, int]] = {CPU: 65, MEMORY: 95}
DEFAULT_WEIGHTS: Final[Mapping[str, int]] = {CPU: 1, MEMORY: 1}
DEFAULT_FACTORS: Final[Mapping[str, int]] = {CPU: 85, MEMORY: 70}


class AggregatedArgs(Strict, frozen=True, kw_only=True):
    """Which windows count instead of the newest usage; durations as Go writes them (`5m`), `0` for the longest."""

    usage_thresholds: dict[str, Integer] = {}
    usage_aggregation_type: AggregationType = ""
    usage_aggregated_duration: str = "0"
    score_aggregation_type: AggregationType = ""
    score_aggregated_duration: str = "0"

    @property
    def filters(self) -> bool:
        """Whether nodes are ruled out by a window."""
        return bool(self.usage_thresholds) and self.usage_aggregation_type != ""


class LoadAwareArgs(Args, frozen=True, kw_only=True):
    """LoadAwareSchedulingArgs. Thresholds are percent, 0: not checked; weights and factors go by resource.

    `estimated_seconds_after_pod_scheduled` and `..._initialized`: how long a pod counts with its estimate although it
    is measured; None or 0: no longer than until it is.
    """

    filter_expired_node_metrics: bool = True
    enable_schedule_when_node_metrics_expired: bool = False
    node_metric_expiration_seconds: Integer = 180
    usage_thresholds: dict[str, Integer] = {}
    prod_usage_thresholds: dict[str, Integer] = {}
    prod_usage_include_sys: bool = False
    score_according_prod_usage: bool = False
    aggregated: AggregatedArgs = AggregatedArgs()
    resource_weights: dict[str, Integer] = {}
    dominant_resource_weight: Integer = 0
    estimator: str = ESTIMATOR
    estimated_scaling_factors: dict[str, Integer] = {}
    estimated_seconds_after_pod_scheduled: Integer | None = None
    estimated_seconds_after_initialized: Integer | None = None
    allow_customize_estimation: bool = False
    supported_resources: tuple[str, ...] = ()

    @property
    def tracked(self) -> frozenset[str]:
        """The resources that are looked at."""
        return frozenset((*self.estimated_scaling_factors, *self.resource_weights, *self.supported_resources))

    def completed(self) -> Self:
        """With what holds where they say nothing.

        Thresholds are those of the default only where none are named at all; weights only where there is no weight of
        the dominant resource either; factors are filled in one by one.
        """
        weighs = self.resource_weights or self.dominant_resource_weight
        return msgspec.structs.replace(
            self,
            usage_thresholds=self.usage_thresholds or dict(DEFAULT_THRESHOLDS),
            resource_weights=self.resource_weights if weighs else dict(DEFAULT_WEIGHTS),
            estimated_scaling_factors={**DEFAULT_FACTORS, **self.estimated_scaling_factors},
        )


def problems_of(args: LoadAwareArgs, path: str) -> Iterator[Problem]:
    """What is wrong with completed arguments. `path` is where they stand."""
    thresholds = {
        "usageThresholds": args.usage_thresholds,
        "prodUsageThresholds": args.prod_usage_thresholds,
        "aggregated.usageThresholds": args.aggregated.usage_thresholds,
    }
    for field, given in thresholds.items():
        yield from _within(given, 0, f"{path}.{field}")
    yield from _within(args.resource_weights, 1, f"{path}.resourceWeights")
    yield from _within(args.estimated_scaling_factors, 1, f"{path}.estimatedScalingFactors")
    yield from _within({"": args.dominant_resource_weight}, 0, f"{path}.dominantResourceWeight")
    for name in args.resource_weights:
        if name not in args.estimated_scaling_factors:
            yield Problem(
                field=f"{path}.estimatedScalingFactors", message=f"has none of {name[:80]}, which has a weight"
            )
    if not 0 < args.node_metric_expiration_seconds <= SECONDS_MAX:
        message = f"must be between 1 and {SECONDS_MAX}"
        yield Problem(field=f"{path}.nodeMetricExpirationSeconds", message=message)
    seconds = {
        "estimatedSecondsAfterPodScheduled": args.estimated_seconds_after_pod_scheduled,
        "estimatedSecondsAfterInitialized": args.estimated_seconds_after_initialized,
    }
    for field, value in seconds.items():
        if value is not None and not 0 <= value <= SECONDS_MAX:
            yield Problem(field=f"{path}.{field}", message=f"must be between 0 and {SECONDS_MAX}")
    if args.estimator != ESTIMATOR:
        yield Problem(field=f"{path}.estimator", message=f"only {ESTIMATOR} is built")
    if len(args.supported_resources) > RESOURCES_MAX:
        yield Problem(field=f"{path}.supportedResources", message=f"has more than {RESOURCES_MAX} entries")
    for field in ("usageAggregatedDuration", "scoreAggregatedDuration"):
        text = getattr(args.aggregated, "usage_aggregated_duration" if field[0] == "u" else "score_aggregated_duration")
        if duration_s(text) is None:
            yield Problem(field=f"{path}.aggregated.{field}", message="is no duration such as 5m, or a negative one")


def duration_s(text: str) -> float | None:
    """Seconds of a duration; None when it is none, or negative."""
    try:
        seconds = parse_duration_s(text)
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def _within(given: Mapping[str, int], least: int, path: str) -> Iterator[Problem]:
    if len(given) > RESOURCES_MAX:
        yield Problem(field=path, message=f"has more than {RESOURCES_MAX} entries")
    for name, value in given.items():
        if not least <= value <= PERCENT_MAX:
            where = f"{path}[{name[:80]}]" if name else path
            yield Problem(field=where, message=f"{value} is not between {least} and {PERCENT_MAX}")
