"""What a pod will use that nobody has measured yet, and until when that is believed more than what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.qos import BATCH, FREE, MID
from berth.rules.numbers import parse_integer
from berth.rules.scheduler_config.load_aware import RESOURCES_MAX, LoadAwareArgs

CPU_FLOOR: Final = 250
"""Thousandths of a core of a pod that names none."""
MEMORY_FLOOR: Final = 200 << 20
"""Bytes of a pod that names none."""

_FLOORS: Final[Mapping[str, int]] = {
    names.CPU: CPU_FLOOR,
    names.BATCH_CPU: CPU_FLOOR,
    names.MEMORY: MEMORY_FLOOR,
    names.BATCH_MEMORY: MEMORY_FLOOR,
}
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    BATCH: {names.CPU: names.BATCH_CPU, names.MEMORY: names.BATCH_MEMORY},
    MID: {names.CPU: names.MID_CPU, names.MEMORY: names.MID_MEMORY},
    FREE: {},
}
"""By priority class: under which name pods ask for a resource. Of a class that is not here it is the resource's own."""


def estimate_pod(
    requests: Mapping[str, int], limits: Mapping[str, int], priority_class: str, factors: Mapping[str, int]
) -> Amounts:
    """What a pod is expected to use of each resource that has a factor, in the names of the node's own resources.

    Args:
        requests: effective requests of the pod.
        limits: effective limits.
        priority_class: that of `berth.rules.cpus.qos.priority_class_or_default`.
        factors: percent of what it may use.
    """
    return {
        resource: _estimate(_name_of(resource, priority_class), requests, limits, factor)
        for resource, factor in factors.items()
    }


def factors_of(args: LoadAwareArgs, annotations: Mapping[str, str]) -> tuple[Mapping[str, int], Problem | None]:
    """The factors that hold for a pod: its own, where they are allowed, over those of the profile.

    What cannot be read says nothing, and is the problem.
    """
    own = args.estimated_scaling_factors
    if not args.allow_customize_estimation:
        return own, None
    found = read_annotation(annotations, names.ANNOTATION_ESTIMATED_FACTORS, dict[str, int])
    if found is None:
        return own, None
    if isinstance(found, Problem):
        return own, found
    field = annotation_field(names.ANNOTATION_ESTIMATED_FACTORS)
    if len(found) > RESOURCES_MAX:
        return own, Problem(field=field, message=f"has more than {RESOURCES_MAX} entries")
    if any(factor < 0 for factor in found.values()):
        return own, Problem(field=field, message="has a negative factor")
    return {**own, **found}, None


def estimated_until(
    args: LoadAwareArgs, annotations: Mapping[str, str], *, scheduled_s: float, initialized_s: float | None
) -> float | None:
    """Until when a pod counts with its estimate although it is measured; None: no longer than until it is.

    Args:
        args: the profile's.
        annotations: the pod's, whose durations go first where the profile allows that; 0 there: off.
        scheduled_s: when it was bound, or taken for bound.
        initialized_s: when it was initialised; None while it is not.
    """
    after_initialized = _seconds(
        args.estimated_seconds_after_initialized, args, annotations, names.ANNOTATION_ESTIMATED_AFTER_INITIALIZED
    )
    if after_initialized > 0 and initialized_s is not None:
        return initialized_s + after_initialized
    after_scheduled = _seconds(
        args.estimated_seconds_after_pod_scheduled, args, annotations, names.ANNOTATION_ESTIMATED_AFTER_SCHEDULED
    )
    return scheduled_s + after_scheduled if after_scheduled > 0 else None


def _estimate(name: str, requests: Mapping[str, int], limits: Mapping[str, int], factor: int) -> int:
    limit = limits.get(name, 0)
    amount = max(limit, requests.get(name, 0))
    if amount <= 0:
        return _FLOORS.get(name, 0)
    estimate = (2 * amount * factor + 100) // 200
    return min(estimate, limit) if limit > 0 else estimate


def _name_of(resource: str, priority_class: str) -> str:
    translated = _NAMES.get(priority_class)
    return resource if translated is None else translated.get(resource, "")


def _seconds(argument: int | None, args: LoadAwareArgs, annotations: Mapping[str, str], name: str) -> int:
    if args.allow_customize_estimation and name in annotations:
        own = parse_integer(annotations[name])
        if own is not None and own >= 0:
            return own
    return argument or 0
