"""Pressure stall information: how much of the time tasks waited for CPU, memory or I/O.

One format for `/proc/pressure/*` and for the `*.pressure` files of a cgroup. The `full` line of `cpu` is missing on
older kernels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from berth.node_qos_enforcer.core.malformed import Malformed, counter, quoted

FIELDS = ("avg10", "avg60", "avg300", "total")


class Stall(NamedTuple):
    """One line: percent of time over 10, 60 and 300 s, and the total in microseconds."""

    avg10: float
    avg60: float
    avg300: float
    total_us: int


class StallPair(NamedTuple):
    """Time in which some, and in which all, tasks waited; `full` is None where the kernel does not tell."""

    some: Stall
    full: Stall | None


def parse_pressure(text: str, *, file: str = "pressure") -> StallPair:
    """Parse a pressure file.

    Raises:
        Malformed: for any line that is not a complete `some` or `full` line, a line given twice, or no `some` line.
    """
    stalls: dict[str, Stall] = {}
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] not in ("some", "full") or words[0] in stalls:
            raise Malformed(file, f"unexpected line {quoted(line)}")
        stalls[words[0]] = _stall(words, file)
    if "some" not in stalls:
        raise Malformed(file, "no line of some")
    return StallPair(stalls["some"], stalls.get("full"))


def _stall(words: list[str], file: str) -> Stall:
    pairs = [word.partition("=") for word in words[1:]]
    if tuple(key for key, _, _ in pairs) != FIELDS:
        raise Malformed(file, f"line {words[0]} does not hold {', '.join(FIELDS)}")
    avg10, avg60, avg300 = (_percent(key, value, file) for key, _, value in pairs[:3])
    return Stall(avg10, avg60, avg300, counter(file, "total", pairs[3][2]))


def _percent(key: str, text: str, file: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise Malformed(file, f"{key} is not a percentage: {quoted(text)}")
    return value
