"""What each feature wants to have released after a look, and from whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from berth.contracts.names import BATCH_CPU, CPU, MEMORY
from berth.node_qos_enforcer.core.evicting.release import release_by_allocatable, release_by_usage, usage_percent
from berth.node_qos_enforcer.core.evicting.rounds import Task
from berth.node_qos_enforcer.core.evicting.satisfaction import (
    SAMPLED_MIN,
    BestEffort,
    Satisfaction,
    release_by_satisfaction,
)
from berth.node_qos_enforcer.core.evicting.victims import Victim, victims_of
from berth.node_qos_enforcer.core.strategies.seam import Snapshot
from berth.resources.amounts import Amounts
from berth.rules.node_evictions.class_request import class_resource
from berth.rules.node_evictions.features import FEATURES, Feature, levels, priority_threshold, runs
from berth.rules.node_evictions.thresholds import Thresholds

INTERVAL_S: Final = 1.0
_WORDS: Final = {CPU: "CPU", MEMORY: "memory"}


@dataclass(frozen=True)
class Look:
    """A look, the thresholds, who finds pods that may have to leave, and samples of the window: when, CPU of the node
    in thousandths of a core, best-effort pods."""

    snapshot: Snapshot
    thresholds: Thresholds
    find: Callable[[], Sequence[Victim]]
    samples: Sequence[tuple[float, float, BestEffort]]

    @cached_property
    def victims(self) -> Sequence[Victim]:
        """Pods that may have to leave. Found when somebody has to: most looks need none."""
        return self.find()


class Need(NamedTuple):
    """What a feature wants: its task for the round, the figures behind it, and a sentence."""

    feature: Feature
    task: Task
    inputs: Mapping[str, int]
    message: str


class _Wanted(NamedTuple):
    release: Amounts
    inputs: Mapping[str, int]
    message: str


def needs_of(look: Look, resource: str) -> list[Need]:
    """Those of a resource that there are now, in their order. A feature that lacks a figure has none."""
    found = []
    for feature in FEATURES.values():
        if feature.resource != resource or not runs(feature, look.thresholds):
            continue
        wanted = _BY[feature.by](feature, look)
        release = {name: amount for name, amount in wanted.release.items() if amount > 0}
        if not release:
            continue
        counts = {each.uid: _counts(feature, each) for each in look.victims}
        # Who releases nothing of it, or was not measured, would leave in vain, and the next one after it.
        chosen = [
            each.uid
            for each in victims_of(feature, look.thresholds, look.victims)
            if any((counts[each.uid] or {}).get(name, 0) > 0 for name in release)
        ]
        task = Task(feature.accumulator, release, chosen, counts, feature.name)
        found.append(Need(feature, task, wanted.inputs, wanted.message))
    return found


NOTHING: Final = _Wanted({}, {}, "")


def _by_usage(feature: Feature, look: Look) -> _Wanted:
    node, usage, resource = look.snapshot.node, look.snapshot.usage, feature.resource
    between = levels(feature, look.thresholds)
    if resource == MEMORY:
        capacity, used = node.capacity.get(MEMORY, 0), usage.node_bytes
    else:
        capacity, used = node.capacity_milli, _average(look)
    if between is None or used is None or capacity <= 0:
        return NOTHING
    amount = release_by_usage(capacity, used, threshold_percent=between.threshold, lower_percent=between.lower)
    percent = usage_percent(capacity, used)
    inputs = {"capacity": capacity, "used": used, "percent": percent, **between._asdict()}
    text = f"{_WORDS[resource]} of the node is used to {percent} %, at or above {between.threshold} %"
    return _Wanted({resource: amount}, inputs, text)


def _by_allocatable(feature: Feature, look: Look) -> _Wanted:
    between, highest = levels(feature, look.thresholds), priority_threshold(feature, look.thresholds)
    allocatable = look.snapshot.node.allocatable
    if between is None or highest is None or not allocatable:
        return NOTHING
    counted = [each for each in look.victims if each.pod.priority_value <= highest]
    requests = [(class_resource(each.priority_class, feature.resource), each.request) for each in counted]
    release = release_by_allocatable(
        feature.resource,
        requests,
        allocatable,
        threshold_percent=between.threshold,
        lower_percent=between.lower,
    )
    inputs = {f"allocatable {name}": allocatable.get(name, 0) for name in release} | between._asdict()
    names = ", ".join(release)
    text = f"more {names} is requested than {between.threshold} % of what the node has"
    return _Wanted(release, inputs, text)


def _by_satisfaction(feature: Feature, look: Look) -> _Wanted:
    said = look.thresholds
    lower, upper = said.cpu_evict_be_satisfaction_lower_percent, said.cpu_evict_be_satisfaction_upper_percent
    if lower is None or upper is None or not _is_fresh(look):
        return NOTHING
    rule = Satisfaction(
        lower,
        upper,
        window_s=said.cpu_evict_time_window_seconds or 0,
        interval_s=INTERVAL_S,
        policy=said.cpu_evict_policy or "",
        usage_percent=said.cpu_evict_be_usage_threshold_percent,
        allocatable_milli=look.snapshot.node.allocatable.get(BATCH_CPU),
    )
    current = look.samples[-1][2]
    milli = release_by_satisfaction(rule, _mean([each for _, _, each in look.samples]), current)
    inputs = {
        "limit_milli": int(current.limit_milli),
        "used_milli": int(current.used_milli),
        "request_milli": int(current.request_milli),
        "lower": lower,
        "upper": upper,
    }
    text = f"best-effort pods have less than {lower} % of the CPU that they asked for, and use it up"
    return _Wanted({BATCH_CPU: milli}, inputs, text)


_BY: Final = {"usage": _by_usage, "allocatable": _by_allocatable, "satisfaction": _by_satisfaction}


def _counts(feature: Feature, victim: Victim) -> Amounts | None:
    if feature.by == "usage":
        return None if victim.used is None else {feature.resource: victim.used}
    if feature.by == "satisfaction":
        return {BATCH_CPU: victim.request} if class_resource(victim.priority_class, CPU) == BATCH_CPU else None
    return {class_resource(victim.priority_class, feature.resource): victim.request}


def _average(look: Look) -> int | None:
    """CPU of the node over the window, but no more than now: who has just left is in the average still. None where
    less than a third of it was measured, or nothing now."""
    window_s = max(float(look.thresholds.cpu_evict_time_window_seconds or 0), INTERVAL_S)
    if not _is_fresh(look) or len(look.samples) * INTERVAL_S < window_s / SAMPLED_MIN:
        return None
    return int(min(sum(milli for _, milli, _ in look.samples) / len(look.samples), look.samples[-1][1]))


def _is_fresh(look: Look) -> bool:
    """Whether this very look has a sample: an older one is nobody's need."""
    return bool(look.samples) and look.samples[-1][0] == look.snapshot.now_s


def _mean(samples: Sequence[BestEffort]) -> BestEffort:
    count = len(samples)
    return BestEffort(
        sum(each.limit_milli for each in samples) / count,
        sum(each.used_milli for each in samples) / count,
        sum(each.request_milli for each in samples) / count,
        count,
    )
