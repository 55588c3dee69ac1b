"""The laws of CPU burst: what the kernel lets a container save up, and when its quota is raised above its limit.

A container that is stopped although the node's shared CPUs are calm gets a fifth more each round, up to a multiple of
its limit; it loses a fifth each round while they are busy, or once it has used up its credit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from berth.node_qos_enforcer.core.knob_texts import PERIOD_US

Policy = Literal["none", "auto", "cpuBurstOnly", "cfsQuotaBurstOnly"]
State = Literal["Overload", "Cooling", "Idle", "Unknown"]
Operation = Literal["Reset", "ScaleUp", "ScaleDown", "Remain", "Skip"]

KERNEL_BURST: Final = frozenset({"auto", "cpuBurstOnly"})
QUOTA_BURST: Final = frozenset({"auto", "cfsQuotaBurstOnly"})
ANNOTATION: Final = "koordinator.sh/cpuBurst"
UP: Final = 1.2
DOWN: Final = 0.8
COOLING: Final = 0.9
HIGH_PERCENT: Final = 100
LOW_PERCENT: Final = 60
_NEVER_BURSTS: Final = frozenset({"LSE", "LSR", "BE"})
_LEAVE_POOL: Final = frozenset({"LSE", "LSR"})


_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _Annotated(msgspec.Struct, frozen=True, rename="camel"):
    policy: str | None = None
    cpu_burst_percent: _Int64 | None = None
    cfs_quota_burst_percent: _Int64 | None = None
    cfs_quota_burst_period_seconds: _Int64 | None = None


def merged(node: Mapping[str, Any] | None, annotation: str | None) -> dict[str, Any]:
    """What holds for a pod: the fields of its annotation over those of the node. One that cannot be read has none."""
    found = dict(node or {})
    if not annotation:
        return found
    try:
        read = msgspec.json.decode(annotation[: 1 << 16], type=_Annotated)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return found
    named = msgspec.to_builtins(read)
    return found | {name: value for name, value in named.items() if value is not None}


def kernel_burst_us(limit_milli: int | None, policy: str, percent: int | None) -> int:
    """What a container may save up, microseconds; a pod's is the sum."""
    if limit_milli is None or limit_milli <= 0 or policy not in KERNEL_BURST or percent is None:
        return 0
    return int(limit_milli / 1_000 * (percent / 100) * PERIOD_US)


class PoolPod(NamedTuple):
    """What the state of the shared CPUs asks of a pod; `used_cores` None: not known."""

    qos: str
    request_milli: int
    used_cores: float | None


def node_state(
    node_used_cores: float | None, node_cpus: int | None, threshold_percent: int, pods: Sequence[PoolPod]
) -> State:
    """How busy the CPUs are that pods without CPUs of their own share, best-effort pods left out."""
    if node_used_cores is None or node_cpus is None:
        return "Unknown"
    total = float(node_cpus) - sum(each.request_milli for each in pods if each.qos in _LEAVE_POOL) / 1_000
    used = node_used_cores - sum(each.used_cores or 0.0 for each in pods if each.qos in _NEVER_BURSTS)
    ratio = used / total if total > 0 else 1.0
    threshold = threshold_percent / 100
    if ratio >= threshold:
        return "Overload"
    return "Cooling" if ratio >= threshold * COOLING else "Idle"


def operation(policy: str, state: State, *, throttled: float | None, is_allowed: bool) -> Operation:
    """What is done to the quota of a container that has a limit."""
    if policy not in QUOTA_BURST:
        return "Reset"
    found: Operation = "Remain"
    if not is_allowed:
        found = "ScaleDown"
    elif throttled is not None and throttled > 0:
        found = "ScaleUp"
    if state == "Overload" and found in ("ScaleUp", "Remain"):
        return "ScaleDown"
    if state in ("Cooling", "Unknown") and found == "ScaleUp":
        return "Remain"
    return found


def next_quota(done: Operation, base_us: int, current_us: int, percent: int | None) -> int:
    """A container's quota after the round."""
    ceiling_us = int(base_us * percent / 100) if percent is not None and percent > 100 else base_us
    wanted_us = current_us
    match done:
        case "Reset":
            wanted_us = base_us
        case "ScaleUp":
            wanted_us = int(current_us * UP)
        case "ScaleDown":
            wanted_us = int(current_us * DOWN)
    return min(max(wanted_us, base_us), ceiling_us)


def pod_quota(pod_us: int, before_us: Sequence[int], after_us: Sequence[int]) -> int:
    """A pod's quota after the round, by what changed of its containers'; one that has none keeps none."""
    if pod_us < 0:
        return pod_us
    return pod_us + sum(after_us) - sum(before_us)


class Credit(NamedTuple):
    """For how long a container may still burst, in percent of its limit times seconds."""

    capacity: int
    tokens: int

    @property
    def is_allowed(self) -> bool:
        """Whether any is left."""
        return self.tokens > 0


def credit_capacity(period_s: int, percent: int) -> int:
    """How much may be saved up."""
    return period_s * (percent - HIGH_PERCENT)


def spent(period_s: int, percent: int, tokens: int, elapsed_s: float, usage_percent: int) -> Credit:
    """What is left after a while of using so much: above the limit it is spent, well below it is saved."""
    capacity, seconds = credit_capacity(period_s, percent), int(elapsed_s)
    if usage_percent >= HIGH_PERCENT:
        tokens -= (usage_percent - HIGH_PERCENT) * seconds
    elif usage_percent < LOW_PERCENT:
        tokens += (HIGH_PERCENT - usage_percent) * seconds
    return Credit(capacity, min(max(tokens, -capacity), capacity))


def never_bursts(qos: str) -> bool:
    """Whether pods of this class are left alone."""
    return qos in _NEVER_BURSTS
