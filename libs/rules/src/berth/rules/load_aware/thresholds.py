"""From which load a node takes no more pods: by the profile, and by an annotation of the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_USAGE_THRESHOLDS
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.scheduler_config.load_aware import PERCENT_MAX, RESOURCES_MAX, LoadAwareArgs, duration_s


class Aggregated(NamedTuple):
    """Thresholds of a window; 0 seconds: of the longest."""

    percent: Mapping[str, int]
    aggregation: str
    duration_s: float = 0.0


class Thresholds(NamedTuple):
    """Percent by resource, 0: not checked."""

    usage: Mapping[str, int]
    prod: Mapping[str, int]
    aggregated: Aggregated | None = None


class _Window(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    usage_thresholds: dict[str, int] | None = None
    usage_aggregation_type: str = ""
    usage_aggregated_duration: str | None = None


class _Custom(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    usage_thresholds: dict[str, int] | None = None
    prod_usage_thresholds: dict[str, int] | None = None
    aggregated_usage: _Window | None = None


def thresholds_of(args: LoadAwareArgs, annotations: Mapping[str, str]) -> tuple[Thresholds, Problem | None]:
    """What holds for a node. Each part that its annotation names replaces that of the profile.

    An annotation that cannot be read says nothing at all, and is the problem.
    """
    own = args.aggregated
    window = None
    if own.filters:
        length = duration_s(own.usage_aggregated_duration) or 0.0
        window = Aggregated(own.usage_thresholds, own.usage_aggregation_type, length)
    by_profile = Thresholds(args.usage_thresholds, args.prod_usage_thresholds, window)
    found = read_annotation(annotations, ANNOTATION_USAGE_THRESHOLDS, _Custom)
    if found is None:
        return by_profile, None
    if isinstance(found, Problem):
        return by_profile, found
    custom = found.aggregated_usage
    length_s = duration_s(custom.usage_aggregated_duration or "0") if custom is not None else 0.0
    problem = _problem(found, length_s)
    if problem is not None:
        return by_profile, problem
    if custom is not None and custom.usage_thresholds and custom.usage_aggregation_type:
        window = Aggregated(custom.usage_thresholds, custom.usage_aggregation_type, length_s or 0.0)
    return Thresholds(
        found.usage_thresholds or by_profile.usage, found.prod_usage_thresholds or by_profile.prod, window
    ), None


def _problem(found: _Custom, length_s: float | None) -> Problem | None:
    field = annotation_field(ANNOTATION_USAGE_THRESHOLDS)
    if length_s is None:
        message = "is no duration such as 5m, or a negative one"
        return Problem(field=f"{field}.aggregatedUsage.usageAggregatedDuration", message=message)
    parts = {
        "usageThresholds": found.usage_thresholds,
        "prodUsageThresholds": found.prod_usage_thresholds,
        "aggregatedUsage.usageThresholds": found.aggregated_usage and found.aggregated_usage.usage_thresholds,
    }
    for part, given in parts.items():
        if len(given or {}) > RESOURCES_MAX:
            return Problem(field=f"{field}.{part}", message=f"has more than {RESOURCES_MAX} entries")
        for name, percent in (given or {}).items():
            if not 0 <= percent <= PERCENT_MAX:
                return Problem(field=f"{field}.{part}[{name[:80]}]", message=f"{percent} is not between 0 and 100")
    return None
