"""Which pods a feature may evict, and what a pod says of its own turn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import (
    ANNOTATION_EVICTION_POLICY,
    ANNOTATION_EVICTION_PRIORITY,
    LABEL_EVICTION_ENABLED,
    LABEL_PRIORITY,
)
from berth.rules.bounded_json import annotation_field, read_json
from berth.rules.cpus.qos import BATCH, BE, FREE, MID, PROD, priority_class_or_default, qos_class
from berth.rules.node_evictions.features import Feature, priority_threshold
from berth.rules.node_evictions.thresholds import Thresholds

ALIVE: Final = frozenset({"Pending", "Running"})
_OF_CLASS: Final = {PROD: 9500, MID: 7500, BATCH: 5500, FREE: 3500}
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_INT32: Final = 2**31
_INT64: Final = 2**63


class Candidate(NamedTuple):
    """What decides of a pod. `priority` is that of its spec, None where it has none."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    priority: int | None
    kube_qos: str
    phase: str

    @property
    def priority_value(self) -> int:
        """Its priority; 0 and none are what stands for its class."""
        if self.priority:
            return self.priority
        return _OF_CLASS.get(priority_class_or_default(self.labels, self.priority, self.kube_qos), 0)

    @property
    def sub_priority(self) -> int:
        """That of its label, else its priority."""
        found = _number(self.labels.get(LABEL_PRIORITY, ""), _INT64)
        return self.priority_value if found is None else found

    @property
    def turn(self) -> int:
        """What it says of its own turn: lower leaves first."""
        return _number(self.annotations.get(ANNOTATION_EVICTION_PRIORITY, ""), _INT32) or 0


def allows(feature: str, annotations: Mapping[str, str]) -> bool:
    """Whether a pod lets a feature evict it: without the annotation every one, with one that is unreadable none."""
    text = annotations.get(ANNOTATION_EVICTION_POLICY)
    if text is None:
        return True
    listed = read_json(text, list[str], annotation_field(ANNOTATION_EVICTION_POLICY))
    return not isinstance(listed, Problem) and feature in listed


def refusal(feature: Feature, pod: Candidate, thresholds: Thresholds) -> str:
    """Why a feature may not evict a pod; empty: it may."""
    if pod.phase not in ALIVE:
        return "it has ended"
    if not allows(feature.name, pod.annotations):
        return f"its annotation {ANNOTATION_EVICTION_POLICY} does not name {feature.name}"
    if feature.best_effort:
        return "" if qos_class(pod.labels) == BE else "it is not labelled best-effort"
    if pod.labels.get(LABEL_EVICTION_ENABLED) != "true":
        return f"its label {LABEL_EVICTION_ENABLED} is not true"
    highest = priority_threshold(feature, thresholds)
    if highest is None or pod.priority_value > highest:
        return f"its priority {pod.priority_value} is above {highest}"
    return ""


def _number(text: str, beyond: int) -> int | None:
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -beyond <= number < beyond else None
