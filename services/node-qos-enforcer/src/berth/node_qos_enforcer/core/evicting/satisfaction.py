"""How much best-effort pods have to give up so that those that stay get what they asked for (BECPUEvict).

Only where they use up what they are let have, and have less of it than the lower share of what they asked for; on
average over a window, and now.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.rules.node_evictions.thresholds import BY_ALLOCATABLE, USAGE_PERCENT

SAMPLED_MIN: Final = 3
"""A third of the window has to be measured."""
SMALL_MILLI: Final = 1000
"""Who is let have less than one core counts as using it up."""


class BestEffort(NamedTuple):
    """CPU of all best-effort pods together, in thousandths of a core. `samples`: of how many it is the average."""

    limit_milli: float
    used_milli: float
    request_milli: float
    samples: int = 1


class Satisfaction(NamedTuple):
    """The rule. `interval_s`: time between two samples; `allocatable_milli`: what the node lends, None: nothing."""

    lower_percent: int
    upper_percent: int
    window_s: int = 0
    interval_s: float = 1.0
    policy: str = ""
    usage_percent: int | None = None
    allocatable_milli: int | None = None


def release_by_satisfaction(rule: Satisfaction, average: BestEffort, current: BestEffort) -> int:
    """The request for batch CPU to release, in thousandths; 0: nothing."""
    window_s = max(rule.window_s, rule.interval_s)
    if average.samples * rule.interval_s < window_s / SAMPLED_MIN:
        return 0
    return min(_release(rule, average), _release(rule, current))


def _release(rule: Satisfaction, of: BestEffort) -> int:
    limit = of.limit_milli
    if rule.policy == BY_ALLOCATABLE:
        limit = _allocatable(rule.allocatable_milli)
    if not _is_used_up(rule, limit, of.used_milli) or of.request_milli <= 0:
        return 0
    share = limit / of.request_milli
    if share > rule.lower_percent / 100:
        return 0
    return max(int(of.request_milli * (rule.upper_percent / 100 - share)), 0)


def _allocatable(milli: int | None) -> float:
    """What the node lends; none of it counts as next to nothing, where it lends nothing nobody leaves."""
    if milli is None or milli < 0:
        return -1
    return milli or 1


def _is_used_up(rule: Satisfaction, limit: float, used: float) -> bool:
    if limit <= 0:
        return False
    percent = USAGE_PERCENT if rule.usage_percent is None else rule.usage_percent
    return limit < SMALL_MILLI or used / limit >= percent / 100
