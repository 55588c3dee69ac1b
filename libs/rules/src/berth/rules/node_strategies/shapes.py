"""What a complete section of a NodeSLO may hold: types, ranges, and fields that bound each other.

A field that is not listed is carried as it is, since newer agents may know it. Ranges are those of the protocol's
admission.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from berth.contracts.base import Problem
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.resources.quantity import QuantityError, parse_units

Percent = Annotated[int, Meta(ge=0, le=100)]
NotNegative = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Switch = Literal[0, 1]
_UPPER: Final = {"be": "BE", "qos": "QOS"}


def _camel(name: str) -> str:
    """Give the protocol's name: `cpu_evict_be_usage` is `cpuEvictBEUsage`, `cpu_qos` is `cpuQOS`."""
    first, *words = name.split("_")
    return first + "".join(_UPPER.get(word, word.capitalize()) for word in words)


class _Shape(msgspec.Struct, frozen=True, rename=_camel):
    """The known fields of a section; all optional."""


class Threshold(_Shape, frozen=True):
    """resourceUsedThresholdWithBE."""

    enable: bool | None = None
    cpu_suppress_threshold_percent: Percent | None = None
    cpu_suppress_min_percent: Percent | None = None
    cpu_suppress_policy: Literal["cpuset", "cfsQuota"] | None = None
    memory_evict_threshold_percent: Percent | None = None
    memory_evict_lower_percent: Percent | None = None
    memory_allocatable_evict_threshold_percent: NotNegative | None = None
    memory_allocatable_evict_lower_percent: NotNegative | None = None
    cpu_evict_be_satisfaction_upper_percent: Percent | None = None
    cpu_evict_be_satisfaction_lower_percent: Percent | None = None
    cpu_evict_be_usage_threshold_percent: Percent | None = None
    cpu_evict_time_window_seconds: Positive | None = None
    cpu_evict_policy: Literal["evictByRealLimit", "evictByAllocatable"] | None = None
    cpu_evict_threshold_percent: Percent | None = None
    cpu_evict_lower_percent: Percent | None = None
    cpu_allocatable_evict_threshold_percent: NotNegative | None = None
    cpu_allocatable_evict_lower_percent: NotNegative | None = None
    evict_enabled_priority_threshold: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    allocatable_evict_priority_threshold: Annotated[int, Meta(ge=0, le=7999)] | None = None


class Burst(_Shape, frozen=True):
    """cpuBurstStrategy."""

    policy: Literal["none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"] | None = None
    cpu_burst_percent: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    cfs_quota_burst_percent: Annotated[int, Meta(ge=100, le=2**63 - 1)] | None = None
    cfs_quota_burst_period_seconds: Annotated[int, Meta(ge=-1, le=2**63 - 1)] | None = None
    share_pool_threshold_percent: Percent | None = None


class System(_Shape, frozen=True):
    """systemStrategy; its bandwidth is a quantity, checked apart."""

    min_free_kbytes_factor: Positive | None = None
    watermark_scale_factor: Annotated[int, Meta(ge=1, le=400)] | None = None
    memcg_reap_back_ground: Switch | None = None
    sched_group_identity_enabled: Switch | None = None
    sched_idle_saver_wmark: NotNegative | None = None
    sched_features: dict[str, bool] | None = None
    total_network_bandwidth: str | int | float | None = None


class CpuQos(_Shape, frozen=True):
    """cpuQOS of a class."""

    enable: bool | None = None
    group_identity: Annotated[int, Meta(ge=-1, le=2)] | None = None
    sched_idle: Switch | None = None
    core_expeller: bool | None = None


class MemoryQos(_Shape, frozen=True):
    """memoryQOS of a class."""

    enable: bool | None = None
    min_limit_percent: Percent | None = None
    low_limit_percent: Percent | None = None
    throttling_percent: Percent | None = None
    wmark_ratio: Percent | None = None
    wmark_scale_permill: Annotated[int, Meta(ge=1, le=1000)] | None = None
    wmark_min_adj: Annotated[int, Meta(ge=-25, le=50)] | None = None
    priority_enable: Switch | None = None
    priority: Annotated[int, Meta(ge=0, le=12)] | None = None
    oom_kill_group: Switch | None = None


class ResctrlQos(_Shape, frozen=True):
    """resctrlQOS of a class."""

    enable: bool | None = None
    cat_range_start_percent: Percent | None = None
    cat_range_end_percent: Percent | None = None
    mba_percent: Percent | None = None


class BlkioQos(_Shape, frozen=True):
    """blkioQOS of a class; blocks are carried as they are."""

    enable: bool | None = None
    blocks: list[dict[str, Any]] | None = None


class NetworkQos(_Shape, frozen=True):
    """networkQOS of a class: integer percent, or a quantity as text."""

    enable: bool | None = None
    ingress_request: int | str | None = None
    ingress_limit: int | str | None = None
    egress_request: int | str | None = None
    egress_limit: int | str | None = None


class QosClass(_Shape, frozen=True):
    """One class of resourceQOSStrategy."""

    cpu_qos: CpuQos | None = None
    memory_qos: MemoryQos | None = None
    resctrl_qos: ResctrlQos | None = None
    blkio_qos: BlkioQos | None = None
    network_qos: NetworkQos | None = None


class Policies(_Shape, frozen=True):
    """policies of resourceQOSStrategy."""

    cpu_policy: str | None = None
    net_qos_policy: str | None = None


class Qos(_Shape, frozen=True):
    """resourceQOSStrategy."""

    policies: Policies | None = None
    lsr_class: QosClass | None = None
    ls_class: QosClass | None = None
    be_class: QosClass | None = None
    system_class: QosClass | None = None
    cgroup_root: QosClass | None = None


class CgroupPath(_Shape, frozen=True):
    """Where a host application's control group is."""

    base: str | None = None
    parent_dir: str | None = None
    relative_path: str | None = None


class HostApplication(_Shape, frozen=True):
    """One entry of hostApplications."""

    name: str | None = None
    priority: str | None = None
    qos: str | None = None
    cgroup_path: CgroupPath | None = None


_BELOW: Final = (
    ("memoryEvictLowerPercent", "memoryEvictThresholdPercent"),
    ("memoryAllocatableEvictLowerPercent", "memoryAllocatableEvictThresholdPercent"),
    ("cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent"),
    ("cpuEvictLowerPercent", "cpuEvictThresholdPercent"),
    ("cpuAllocatableEvictLowerPercent", "cpuAllocatableEvictThresholdPercent"),
    ("catRangeStartPercent", "catRangeEndPercent"),
)
"""Pairs of fields of which the first has to be smaller, and means nothing without the second."""


def below(field: str, path: str) -> str:
    """Give the path of something below a field: `a` and `b` are `a.b`, `a` and `[0]` are `a[0]`."""
    return field + path if not field or not path or path.startswith("[") else f"{field}.{path}"


def check(value: Any, shape: Any, field: str) -> Problem | None:
    """Say what is wrong with a section, naming the field below `field`; None when nothing is."""
    try:
        decode(encode(value), shape)
    except InvalidMessage as error:
        return Problem(field=below(field, error.field), message=error.problem)
    return _quantity(value, field) or _order(value, field)


def _quantity(value: Any, field: str) -> Problem | None:
    amount = value.get("totalNetworkBandwidth") if isinstance(value, Mapping) else None
    problem = "" if amount is None else bandwidth_problem(amount)
    return Problem(field=f"{field}.totalNetworkBandwidth", message=problem) if problem else None


def bandwidth_problem(amount: str | float) -> str:
    """Say why this is not an amount of bits a second; empty when it is."""
    try:
        parse_units(amount)
    except QuantityError as error:
        return str(error)
    return ""


def _order(value: Any, field: str) -> Problem | None:
    """Look for a pair in the wrong order, or for half of one, here or in a block below."""
    if not isinstance(value, Mapping):
        return None
    for low, high in _BELOW:
        if value.get(low) is None:
            continue
        if value.get(high) is None:
            return Problem(field=f"{field}.{low}", message=f"needs {high}, below which it has to be")
        if value[low] >= value[high]:
            return Problem(field=f"{field}.{low}", message=f"has to be below {high}: {value[low]}, {value[high]}")
    found = (_order(part, f"{field}.{name}") for name, part in value.items())
    return next((problem for problem in found if problem is not None), None)
