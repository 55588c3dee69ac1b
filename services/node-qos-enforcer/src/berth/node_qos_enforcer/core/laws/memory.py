"""The laws of memory QoS: what of a container's memory is protected, from where on it is slowed, and who goes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from berth.node_qos_enforcer.core.knob_texts import PAGE
from berth.node_qos_enforcer.core.strategies.node_slo import BE_CLASS, DEFAULTS, LS_CLASS, LSR_CLASS, OFF, QOS
from berth.rules.cpus.qos import BE, LSE, LSR, SYSTEM, qos_class_or_default

ANNOTATION: Final = "koordinator.sh/memoryQOS"
NO_LIMIT: Final = (1 << 63) - 1
ENABLE: Final = "enable"
STEP_PERCENT: Final = 5
_PLAIN: Final = {
    "wmarkRatio": "memory.wmark_ratio",
    "wmarkScalePermill": "memory.wmark_scale_factor",
    "wmarkMinAdj": "memory.wmark_min_adj",
    "priority": "memory.priority",
    "priorityEnable": "memory.use_priority_oom",
    "oomKillGroup": "memory.oom.group",
}
"""Fields whose number is the file's."""


class _Annotated(msgspec.Struct, frozen=True, rename="camel"):
    policy: str = ""
    min_limit_percent: int | None = None
    low_limit_percent: int | None = None
    throttling_percent: int | None = None
    wmark_ratio: int | None = None
    wmark_scale_permill: int | None = None
    wmark_min_adj: int | None = None
    priority_enable: int | None = None
    priority: int | None = None
    oom_kill_group: int | None = None


def merged(labels: Mapping[str, str], kube_qos: str, node: Mapping[str, Any], annotation: str | None) -> dict[str, int]:
    """The fields that hold for a pod.

    Args:
        labels: the pod's.
        kube_qos: its Kubernetes QoS class.
        node: those of the node for its class.
        annotation: the pod's; one that cannot be read says nothing.
    """
    of_node = _numbers(node)
    if not annotation:
        return of_node
    try:
        read = msgspec.json.decode(annotation[: 1 << 16], type=_Annotated)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return of_node
    if read.policy == "none":
        return _numbers(OFF["memoryQOS"])
    base = _numbers(_defaults(labels, kube_qos)) if read.policy == "auto" else of_node
    named = msgspec.to_builtins(read)
    return base | {name: value for name, value in named.items() if name != "policy" and value is not None}


def class_of(labels: Mapping[str, str], kube_qos: str) -> str:
    """The section of a pod's class."""
    qos = qos_class_or_default(labels, kube_qos)
    if qos == SYSTEM:
        return "systemClass"
    return {LSE: LSR_CLASS, LSR: LSR_CLASS, BE: BE_CLASS}.get(qos, LS_CLASS)


def container_values(
    config: Mapping[str, int], request: int, limit: int | None, node_allocatable: int
) -> dict[str, int]:
    """What the files of a container are to have; a file of whose field nothing is said has no entry."""
    found = _protected(config, request)
    if "throttlingPercent" in config:
        found["memory.high"] = _high(config["throttlingPercent"], max(request, 0), limit, node_allocatable)
    least = found.get("memory.min", 0)
    for file in ("memory.low", "memory.high"):
        if 0 < found.get(file, 0) < least:
            found[file] = least
    return found | {file: config[field] for field, file in _PLAIN.items() if field in config}


def pod_values(config: Mapping[str, int], request: int) -> dict[str, int]:
    """The same for the pod as a whole, which is not slowed."""
    found = container_values(config, request, None, 0)
    found.pop("memory.high", None)
    return found


class Protected(NamedTuple):
    """What a pod adds to the group of its Kubernetes QoS class."""

    kube_qos: str
    request: int
    config: Mapping[str, int]


def class_values(pods: Sequence[Protected]) -> dict[str, dict[str, int]]:
    """What is protected of the groups of Kubernetes QoS classes; that of Guaranteed is the root, so the sum of all. A
    pod that says less than nothing takes nothing from the others."""
    found: dict[str, dict[str, int]] = {"Guaranteed": {}, "Burstable": {}, "BestEffort": {}}
    for pod in pods:
        for file, amount in _protected(pod.config, pod.request).items():
            for qos in {"Guaranteed", pod.kube_qos}:
                found[qos][file] = found[qos].get(file, 0) + max(amount, 0)
    return found


def high_step(wanted: int, in_use: int, now: int) -> int:
    """From where on a container is slowed next, on the way down to what is wanted.

    The kernel stops a group almost entirely that is far above its mark. So the mark goes to a twentieth below what is
    in use, again and again as that is reclaimed, and is never raised on the way.
    """
    step = in_use * (100 - STEP_PERCENT) // 100 // PAGE * PAGE
    return max(min(step, now), wanted)


def _protected(config: Mapping[str, int], request: int) -> dict[str, int]:
    fields = (("minLimitPercent", "memory.min"), ("lowLimitPercent", "memory.low"))
    return {file: max(request, 0) * config[field] // 100 for field, file in fields if field in config}


def _high(percent: int, request: int, limit: int | None, node_allocatable: int) -> int:
    if percent == 0:
        return NO_LIMIT
    bound = limit if limit is not None and limit > 0 else node_allocatable
    return (request * 100 + (bound - request) * percent) // 100 // PAGE * PAGE


def _defaults(labels: Mapping[str, str], kube_qos: str) -> Mapping[str, Any]:
    section = class_of(labels, kube_qos)
    classes: Mapping[str, Any] = DEFAULTS[QOS]
    found: Mapping[str, Any] = classes.get(section, classes[LS_CLASS])["memoryQOS"]
    return found


def _numbers(fields: Mapping[str, Any]) -> dict[str, int]:
    """Those that are set to a number."""
    return {name: value for name, value in fields.items() if isinstance(value, int) and not isinstance(value, bool)}
