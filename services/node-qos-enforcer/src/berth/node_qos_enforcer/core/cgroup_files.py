"""The files of a control group, version 1 and 2, in common units.

The two versions name and scale the same facts differently (nanoseconds and microseconds, `-1` and `max`); callers see
one form: nanoseconds, bytes, -1 for unlimited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from berth.node_qos_enforcer.core.malformed import Malformed, counter, quoted
from berth.node_qos_enforcer.core.proc import value_of

Version = Literal[1, 2]

UNLIMITED = -1


class MemoryStat(NamedTuple):
    """The parts of a group's memory, in bytes."""

    cache: int
    rss: int
    inactive_file: int
    active_file: int
    inactive_anon: int
    active_anon: int
    unevictable: int

    @property
    def usage_without_page_cache(self) -> int:
        """Memory that would not come back by dropping clean pages."""
        return self.inactive_anon + self.active_anon + self.unevictable


class Bandwidth(NamedTuple):
    """CFS quota and period in microseconds; quota -1 is unlimited."""

    quota_us: int
    period_us: int


class Throttling(NamedTuple):
    """How often a group's CFS period has passed, how often it was stopped in one, and for how long."""

    periods: int
    throttled: int
    throttled_ns: int


_USAGE = ("usage_usec",)
_THROTTLING: dict[Version, tuple[str, ...]] = {
    1: ("nr_periods", "nr_throttled", "throttled_time"),
    2: ("nr_periods", "nr_throttled", "throttled_usec"),
}
_DIGITS_SAFE = 20
"""A number of fewer digits fits into a counter of the kernel."""


def parse_throttling(text: str, version: Version) -> Throttling:
    """Parse cpu.stat. Raises Malformed when a key is missing."""
    periods, throttled, stopped = _needed(text, _THROTTLING[version], "cpu.stat")
    return Throttling(periods, throttled, stopped if version == 1 else stopped * 1_000)


def parse_cpu_usage_ns(text: str, version: Version) -> int:
    """Parse the CPU time a group has used since it was made: `cpuacct.usage` (version 1) or `cpu.stat` (version 2).

    Raises:
        Malformed: when the number is missing or not one.
    """
    if version == 1:
        return counter("cpuacct.usage", "usage", text.strip())
    return _needed(text, _USAGE, "cpu.stat")[0] * 1_000


_MEMORY_V1 = ("cache", "rss", "inactive_file", "active_file", "inactive_anon", "active_anon", "unevictable")
_MEMORY_V2 = ("file", "anon", *_MEMORY_V1[2:])
_MEMORY: dict[Version, tuple[str, ...]] = {1: tuple(f"total_{name}" for name in _MEMORY_V1), 2: _MEMORY_V2}


def parse_memory_stat(text: str, version: Version) -> MemoryStat:
    """Parse memory.stat; version 1 counts with its children (`total_`). Raises Malformed when a key is missing."""
    return MemoryStat(*_needed(text, _MEMORY[version], "memory.stat"))


_IN_USE: dict[Version, tuple[str, ...]] = {version: names[4:] for version, names in _MEMORY.items()}


def parse_memory_in_use(text: str, version: Version) -> int:
    """Parse `MemoryStat.usage_without_page_cache` alone. Raises Malformed when a key of it is missing."""
    return sum(_needed(text, _IN_USE[version], "memory.stat"))


def parse_bandwidth(text: str) -> Bandwidth:
    """Parse cpu.max of version 2: `<quota or max> <period>`. Raises Malformed for anything but two such words."""
    words = text.split()
    if len(words) != 2:
        raise Malformed("cpu.max", f"not a quota and a period: {quoted(text.strip())}")
    quota = UNLIMITED if words[0] == "max" else counter("cpu.max", "quota", words[0])
    period = counter("cpu.max", "period", words[1])
    if period == 0:
        raise Malformed("cpu.max", "period is zero")
    return Bandwidth(quota, period)


def parse_bandwidth_v1(quota_text: str, period_text: str) -> Bandwidth:
    """Parse cpu.cfs_quota_us and cpu.cfs_period_us of version 1. Raises Malformed."""
    quota_word = quota_text.strip()
    quota = UNLIMITED if quota_word == "-1" else counter("cpu.cfs_quota_us", "quota", quota_word)
    period = counter("cpu.cfs_period_us", "period", period_text.strip())
    if period == 0:
        raise Malformed("cpu.cfs_period_us", "period is zero")
    return Bandwidth(quota, period)


def _needed(text: str, names: Sequence[str], file: str) -> list[int]:
    """The numbers of these keys. Raises Malformed for the first that is missing or none."""
    found: list[int] = []
    text = f"\n{text}\n"
    for name in names:
        begin = text.rfind(f"\n{name} ") + len(name) + 2
        word = text[begin : text.find("\n", begin)]
        if begin > len(name) + 1 and len(word) < _DIGITS_SAFE and word.isascii() and word.isdigit():
            found.append(int(word))
            continue
        value = value_of(text, name)
        if value is None:
            raise Malformed(file, f"{name} is missing")
        found.append(counter(file, name, value))
    return found
