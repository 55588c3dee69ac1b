"""The features that evict, in the order in which they are asked: what starts each, and by what it counts.

A feature whose part of the configuration is invalid does not run; the others do.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from berth.contracts.names import CPU, MEMORY
from berth.rules.node_evictions.thresholds import Thresholds

By: TypeAlias = Literal["satisfaction", "usage", "allocatable"]
Accumulator: TypeAlias = Literal["podUsed", "podResourceRequest"]
USED: Final[Accumulator] = "podUsed"
REQUESTED: Final[Accumulator] = "podResourceRequest"

LOWER_BELOW: Final = 2
"""How far below the threshold use is brought where nothing is said, in percent."""
SATISFACTION_LOWER_MAX: Final = 60
PRIORITY_MAX: Final = 7999
"""Whoever is above it is never evicted for the sum of requests: prod pods and system pods."""


class Feature(NamedTuple):
    """One feature. `resource` is cpu or memory; `best_effort`: only pods labelled so leave, else by their priority."""

    name: str
    resource: str
    by: By
    best_effort: bool = False

    @property
    def accumulator(self) -> Accumulator:
        """What a pod that leaves counts for: what it used, or what it requested."""
        return USED if self.by == "usage" else REQUESTED


BE_CPU: Final = Feature("BECPUEvict", CPU, "satisfaction", best_effort=True)
CPU_REQUESTS: Final = Feature("CPUAllocatableEvict", CPU, "allocatable")
CPU_USE: Final = Feature("CPUEvict", CPU, "usage")
BE_MEMORY: Final = Feature("BEMemoryEvict", MEMORY, "usage", best_effort=True)
MEMORY_USE: Final = Feature("MemoryEvict", MEMORY, "usage")
MEMORY_REQUESTS: Final = Feature("MemoryAllocatableEvict", MEMORY, "allocatable")
FEATURES: Final = {each.name: each for each in (BE_CPU, CPU_REQUESTS, CPU_USE, BE_MEMORY, MEMORY_USE, MEMORY_REQUESTS)}


class Levels(NamedTuple):
    """Above `threshold` percent pods leave until it is `lower`."""

    threshold: int
    lower: int


def levels(feature: Feature, thresholds: Thresholds) -> Levels | None:
    """Where use or requests begin to be too much, and where that ends; None: the feature is not to run."""
    if feature.by == "satisfaction":
        return None
    of_requests = feature.by == "allocatable"
    if feature.resource == CPU and of_requests:
        found = thresholds.cpu_allocatable_evict_threshold_percent, thresholds.cpu_allocatable_evict_lower_percent
    elif feature.resource == CPU:
        found = thresholds.cpu_evict_threshold_percent, thresholds.cpu_evict_lower_percent
    elif of_requests:
        found = thresholds.memory_allocatable_evict_threshold_percent, thresholds.memory_allocatable_evict_lower_percent
    else:
        found = thresholds.memory_evict_threshold_percent, thresholds.memory_evict_lower_percent
    threshold, lower = found
    if threshold is None or (lower is None and of_requests):
        return None
    lower = threshold - LOWER_BELOW if lower is None else lower
    return Levels(threshold, lower) if threshold >= 0 and lower < threshold else None


def priority_threshold(feature: Feature, thresholds: Thresholds) -> int | None:
    """The highest priority that leaves; None: not said, or no priority that may."""
    if feature.by == "usage":
        return thresholds.evict_enabled_priority_threshold
    highest = thresholds.allocatable_evict_priority_threshold
    return None if highest is None or highest > PRIORITY_MAX else highest


def runs(feature: Feature, thresholds: Thresholds) -> bool:
    """Whether the configuration lets a feature run, apart from the switch of the whole section."""
    if feature.by == "satisfaction":
        lower = thresholds.cpu_evict_be_satisfaction_lower_percent
        upper = thresholds.cpu_evict_be_satisfaction_upper_percent
        if lower is None or upper is None:
            return False
        return 0 < lower <= SATISFACTION_LOWER_MAX and lower <= upper < 100
    if levels(feature, thresholds) is None:
        return False
    return feature.best_effort or priority_threshold(feature, thresholds) is not None
