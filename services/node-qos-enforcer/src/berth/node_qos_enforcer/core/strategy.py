"""The rule that best-effort pods of this node are held to, as the node's published strategy gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import msgspec

from berth.contracts.base import Problem
from berth.contracts.errors import InvalidMessage
from berth.contracts.slo import CpuSuppress

Policy = Literal["cpuset", "cfsQuota"]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How much of the node may be in use in total, what best-effort pods keep in any case, and by which knob.

    The defaults are the protocol's: switched off, so that the figures are advice. `min_percent` None: nothing is kept.
    """

    enabled: bool = False
    threshold_percent: int = 65
    min_percent: int | None = None
    policy: Policy = "cpuset"


DEFAULT: Final = Strategy()


def strategy_of(rule: CpuSuppress) -> Strategy:
    """Take the rule from a message. Raises InvalidMessage for a percentage or a policy that is none."""
    for field, percent in (("threshold_percent", rule.threshold_percent), ("min_percent", rule.min_percent)):
        if percent is not None and not 0 <= percent <= 100:
            raise InvalidMessage(f"cpu_suppress.{field}", f"is not within 0..100: {percent}")
    policy: Policy | None = next((each for each in get_args(Policy) if each == rule.policy), None)
    if policy is None:
        raise InvalidMessage("cpu_suppress.policy", f"is none of {', '.join(get_args(Policy))}: {rule.policy[:60]!r}")
    return Strategy(
        enabled=rule.enabled,
        threshold_percent=rule.threshold_percent,
        min_percent=rule.min_percent,
        policy=policy,
    )


def rule_of(section: Mapping[str, Any]) -> Strategy | Problem:
    """Take the rule from the section `resourceUsedThresholdWithBE` of a specification."""
    read = {
        "enabled": section.get("enable", DEFAULT.enabled),
        "threshold_percent": section.get("cpuSuppressThresholdPercent", DEFAULT.threshold_percent),
        "min_percent": section.get("cpuSuppressMinPercent"),
        "policy": section.get("cpuSuppressPolicy", DEFAULT.policy),
    }
    try:
        return strategy_of(msgspec.convert(read, CpuSuppress))
    except (msgspec.ValidationError, InvalidMessage) as error:
        return Problem(field="resourceUsedThresholdWithBE", message=str(error)[:200])
