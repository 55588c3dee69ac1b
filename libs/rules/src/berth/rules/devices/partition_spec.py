"""`gpu-partition-spec`: a pod that takes whole GPUs as one partition, and of what quality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube.meta import Quantity, View
from berth.resources.quantity import QuantityError, parse_units
from berth.rules.bounded_json import annotation_field, read_annotation

BEST_EFFORT: Final = "BestEffort"
RESTRICTED: Final = "Restricted"

_FIELD: Final = annotation_field(names.ANNOTATION_GPU_PARTITION_SPEC)


class PartitionSpec(NamedTuple):
    """Restricted: partitions of the best score only. `bandwidth` is the least that the ring has, in bytes per second;
    0: any, also one without a figure.
    """

    policy: str = BEST_EFFORT
    bandwidth: int = 0


class _Spec(View, frozen=True, kw_only=True):
    allocate_policy: str = ""
    ring_bus_bandwidth: Quantity | None = None


def read_partition_spec(annotations: Mapping[str, str]) -> PartitionSpec | Problem | None:
    """What the annotation says, None without one."""
    found = read_annotation(annotations, names.ANNOTATION_GPU_PARTITION_SPEC, _Spec)
    if not isinstance(found, _Spec):
        return found
    if found.allocate_policy not in ("", BEST_EFFORT, RESTRICTED):
        message = f"{found.allocate_policy[:80]!r} is none of {BEST_EFFORT}, {RESTRICTED}"
        return Problem(field=f"{_FIELD}.allocatePolicy", message=message)
    bandwidth = 0
    if found.ring_bus_bandwidth is not None:
        try:
            bandwidth = parse_units(found.ring_bus_bandwidth)
        except QuantityError as error:
            return Problem(field=f"{_FIELD}.ringBusBandwidth", message=str(error))
    return PartitionSpec(found.allocate_policy or BEST_EFFORT, bandwidth)
