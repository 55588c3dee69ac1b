"""What batch resources come to on the node: shares, quota and limit of memory, of a pod and of each of its containers.

Kubelet knows nothing of them, so without this such a pod is best effort without any limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, BATCH_MEMORY
from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.laws.cpu_values import milli_to_quota_us, milli_to_shares
from berth.resources.amounts import parse_amounts
from berth.rules.bounded_json import annotation_field, read_json

CONTAINERS_MAX: Final = 256
TEXTS_MAX: Final = 512
TEXT_LENGTH_MAX: Final = 8_192
"""A longer one is not kept."""


class Sizes(NamedTuple):
    """Batch resources of a container: thousandths of a core, bytes."""

    requests: Mapping[str, int] = {}
    limits: Mapping[str, int] = {}


class BatchLimits(NamedTuple):
    """What the kernel is told: CPU shares, CFS quota in 100 ms and bytes of memory, -1 for no limit."""

    cpu_shares: int
    cfs_quota: int
    memory_limit: int


class _Container(msgspec.Struct, frozen=True):
    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class _Spec(msgspec.Struct, frozen=True):
    containers: dict[str, _Container] = {}


def read_spec(annotations: Mapping[str, str]) -> dict[str, Sizes] | Problem:
    """Batch resources by container, of a pod's annotation; empty: it has none. A Problem where it cannot be read."""
    text = annotations.get(ANNOTATION_EXTENDED_RESOURCE_SPEC)
    if not text:
        return {}
    return _read_once(text) if len(text) <= TEXT_LENGTH_MAX else _read(text)


@lru_cache(maxsize=TEXTS_MAX)
def _read_once(text: str) -> dict[str, Sizes] | Problem:
    """Each round asks for that of each pod. Whoever takes it changes nothing of it."""
    return _read(text)


def _read(text: str) -> dict[str, Sizes] | Problem:
    field = annotation_field(ANNOTATION_EXTENDED_RESOURCE_SPEC)
    read = read_json(text, _Spec, field)
    if isinstance(read, Problem):
        return read
    if len(read.containers) > CONTAINERS_MAX:
        return Problem(field=field, message=f"names {len(read.containers)} containers, at most {CONTAINERS_MAX}")
    found: dict[str, Sizes] = {}
    for name, each in read.containers.items():
        amounts = []
        for kind, mapping in (("requests", each.requests), ("limits", each.limits)):
            parsed, problems = parse_amounts(mapping, f"{field}.containers[{name[:63]}].{kind}", allow_negative=True)
            if problems:
                return Problem(field=problems[0][0], message=problems[0][1])
            amounts.append({key: amount for key, amount in parsed.items() if key in (BATCH_CPU, BATCH_MEMORY)})
        found[name] = Sizes(*amounts)
    return found


def batch_limits(
    spec: Mapping[str, Sizes], *, qos: str, container: str | None, has_quota: bool = True, ratio: float | None = None
) -> BatchLimits | None:
    """The limits of a pod (`container` None) or of one of its containers; None: nothing is changed.

    Args:
        spec: batch resources of all containers.
        qos: the QoS class of the pod's label.
        container: which one.
        has_quota: false while the node holds all best-effort pods by one quota.
        ratio: how much the node's CPUs do more than the reference's; None: not known.
    """
    chosen = list(spec.values()) if container is None else [spec[container]] if container in spec else []
    if qos != "BE" or not any(each.requests or each.limits for each in chosen):
        return None
    request_milli = sum(max(each.requests.get(BATCH_CPU, 0), 0) for each in chosen)
    quota_us = UNLIMITED
    if has_quota and all(each.limits.get(BATCH_CPU, 0) > 0 for each in chosen):
        quota_us = milli_to_quota_us(sum(each.limits[BATCH_CPU] for each in chosen))
        if ratio is not None and ratio > 1:
            quota_us = _divided(quota_us, ratio)
    memory = UNLIMITED
    if all(each.limits.get(BATCH_MEMORY, 0) > 0 for each in chosen):
        memory = sum(each.limits[BATCH_MEMORY] for each in chosen)
    return BatchLimits(milli_to_shares(request_milli), quota_us, memory)


def _divided(quota_us: int, ratio: float) -> int:
    whole = quota_us / ratio
    return int(whole) + (whole > int(whole))
