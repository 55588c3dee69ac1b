"""Amounts of CPU in the units of control groups: shares and quotas of version 1, weights of version 2.

Shares and weights are converted as runtimes did until they took another curve; a weight does not say exactly which
shares it came from, so values are compared in the unit that they are written in.
"""

from __future__ import annotations

from typing import Final

from berth.node_qos_enforcer.core.cgroup_files import UNLIMITED
from berth.node_qos_enforcer.core.malformed import Malformed, counter

SHARES_MIN: Final = 2
SHARES_MAX: Final = 262_144
WEIGHT_MIN: Final = 1
WEIGHT_MAX: Final = 10_000
QUOTA_MIN_US: Final = 1_000
"""The least quota that the kernel takes."""


def milli_to_shares(milli: int) -> int:
    """Shares for a request in thousandths of a core."""
    return min(max(milli * 1024 // 1000, SHARES_MIN), SHARES_MAX) if milli > 0 else SHARES_MIN


def milli_to_quota_us(milli: int) -> int:
    """Quota in a period of 100 ms for a limit in thousandths of a core; without a limit -1."""
    return max(milli * 100, QUOTA_MIN_US) if milli > 0 else UNLIMITED


def shares_to_weight(text: str) -> int:
    """The weight for shares as they are written in a file. Raises Malformed."""
    shares = counter("cpu.shares", "shares", text.strip())
    if not SHARES_MIN <= shares <= SHARES_MAX:
        raise Malformed("cpu.shares", f"is not within {SHARES_MIN}..{SHARES_MAX}: {shares}")
    return WEIGHT_MIN + (shares - SHARES_MIN) * (WEIGHT_MAX - WEIGHT_MIN) // (SHARES_MAX - SHARES_MIN)
