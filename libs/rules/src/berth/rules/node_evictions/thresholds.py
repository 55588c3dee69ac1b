"""When pods are evicted from a node: section `resourceUsedThresholdWithBE` of its NodeSLO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berth.contracts.base import Problem

SECTION: Final = "resourceUsedThresholdWithBE"
BY_ALLOCATABLE: Final = "evictByAllocatable"
USAGE_PERCENT: Final = 90
"""Of their CPU best-effort pods have to use so much before one is evicted for want of it, unless said otherwise."""
_WORDS: Final = {"be": "BE"}


def _camel(name: str) -> str:
    first, *words = name.split("_")
    return first + "".join(_WORDS.get(word, word.capitalize()) for word in words)


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, rename=_camel):
    """What of the section evictions go by; None: not said."""

    enable: bool | None = None
    memory_evict_threshold_percent: int | None = None
    memory_evict_lower_percent: int | None = None
    memory_allocatable_evict_threshold_percent: int | None = None
    memory_allocatable_evict_lower_percent: int | None = None
    cpu_evict_be_satisfaction_upper_percent: int | None = None
    cpu_evict_be_satisfaction_lower_percent: int | None = None
    cpu_evict_be_usage_threshold_percent: int | None = None
    cpu_evict_time_window_seconds: int | None = None
    cpu_evict_policy: str | None = None
    cpu_evict_threshold_percent: int | None = None
    cpu_evict_lower_percent: int | None = None
    cpu_allocatable_evict_threshold_percent: int | None = None
    cpu_allocatable_evict_lower_percent: int | None = None
    evict_enabled_priority_threshold: int | None = None
    allocatable_evict_priority_threshold: int | None = None


NO_THRESHOLDS: Final = Thresholds()


def read_thresholds(spec: Mapping[str, Any]) -> Thresholds | Problem:
    """The section of a NodeSLO's spec; one that is missing says nothing."""
    try:
        return msgspec.convert(spec.get(SECTION) or {}, Thresholds)
    except msgspec.ValidationError as error:
        return Problem(field=f"spec.{SECTION}", message=f"is not readable: {str(error)[:200]}")
