"""The files of a control group, version 1 and 2, in common units.

The two versions name and scale the same facts differently (nanoseconds and microseconds, `-1` and `max`, shares and
weight); callers see one form: nanoseconds, bytes, -1 for unlimited.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from berth.node_qos_enforcer.core.malformed import Malformed, counter, quoted
from berth.node_qos_enforcer.core.proc import parse_key_values

Version = Literal[1, 2]

UNLIMITED = -1
PAGE = 4_096
V1_UNLIMITED_MEMORY = 0x7FFF_FFFF_FFFF_F000
MIN_SHARES, MAX_SHARES = 2, 262_144
MAX_WEIGHT = 10_000


class Throttling(NamedTuple):
    """How often and how long a group was stopped by its quota."""

    nr_periods: int
    nr_throttled: int
    throttled_ns: int


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


def parse_throttling(text: str, version: Version) -> Throttling:
    """Parse the throttling part of cpu.stat. Raises Malformed when a key is missing or not a number."""
    values = parse_key_values(text)
    if version == 1:
        throttled_ns = _needed(values, "throttled_time", "cpu.stat")
    else:
        throttled_ns = _needed(values, "throttled_usec", "cpu.stat") * 1_000
    return Throttling(
        _needed(values, "nr_periods", "cpu.stat"), _needed(values, "nr_throttled", "cpu.stat"), throttled_ns
    )


def parse_cpu_usage_ns(text: str, version: Version) -> int:
    """Parse the CPU time a group has used since it was made: `cpuacct.usage` (version 1) or `cpu.stat` (version 2).

    Raises:
        Malformed: when the number is missing or not one.
    """
    if version == 1:
        return counter("cpuacct.usage", "usage", text.strip())
    return _needed(parse_key_values(text), "usage_usec", "cpu.stat") * 1_000


_MEMORY_V1 = ("cache", "rss", "inactive_file", "active_file", "inactive_anon", "active_anon", "unevictable")
_MEMORY_V2 = ("file", "anon", *_MEMORY_V1[2:])


def parse_memory_stat(text: str, version: Version) -> MemoryStat:
    """Parse memory.stat; version 1 counts with its children (`total_`). Raises Malformed when a key is missing."""
    values = parse_key_values(text)
    names = tuple(f"total_{name}" for name in _MEMORY_V1) if version == 1 else _MEMORY_V2
    return MemoryStat(*(_needed(values, name, "memory.stat") for name in names))


def parse_numa_pages(text: str, version: Version) -> dict[int, int]:
    """Parse memory.numa_stat to pages of 4 KiB by NUMA node.

    Version 1 has them in its `total` line; in version 2 they are `anon` and `file`, bytes, each cut to whole pages.

    Raises:
        Malformed: when a needed line is missing or does not parse.
    """
    lines = {words[0].partition("=")[0]: words[1:] for line in text.splitlines() if (words := line.split())}
    if version == 1:
        return _per_node(lines, "total")
    anon, file = _per_node(lines, "anon"), _per_node(lines, "file")
    return {node: anon.get(node, 0) // PAGE + file.get(node, 0) // PAGE for node in sorted(anon.keys() | file.keys())}


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


def parse_memory_limit(text: str, version: Version) -> int:
    """Parse a memory limit in bytes, -1 for unlimited. Raises Malformed."""
    word = text.strip()
    if version == 2:
        return UNLIMITED if word == "max" else counter("memory.max", "limit", word)
    limit = UNLIMITED if word == "-1" else counter("memory.limit_in_bytes", "limit", word)
    return UNLIMITED if limit >= V1_UNLIMITED_MEMORY else limit


def shares_of_milli(cpu_milli: int) -> int:
    """Give cpu.shares of a CPU request: 1024 for a core, within the kernel's range."""
    return min(max(cpu_milli * 1024 // 1000, MIN_SHARES), MAX_SHARES) if cpu_milli > 0 else MIN_SHARES


def quota_of_milli(cpu_milli: int) -> int:
    """Give the CFS quota of a CPU limit for the default period, microseconds: -1 without a limit, at least 1000."""
    return max(cpu_milli * 100, 1_000) if cpu_milli > 0 else UNLIMITED


def weight_of_shares(shares: int) -> int:
    """Map cpu.shares to cpu.weight as kubelet does. Raises Malformed outside the kernel's range of shares."""
    if not MIN_SHARES <= shares <= MAX_SHARES:
        raise Malformed("cpu.shares", f"not within {MIN_SHARES}..{MAX_SHARES}: {shares}")
    return 1 + (shares - 2) * 9_999 // 262_142


def shares_of_weight(weight: int) -> int:
    """Map cpu.weight back to shares; lossy. Raises Malformed outside the kernel's range of weights."""
    if not 1 <= weight <= MAX_WEIGHT:
        raise Malformed("cpu.weight", f"not within 1..{MAX_WEIGHT}: {weight}")
    return (weight - 1) * 262_142 // 9_999 + 2


def _needed(values: dict[str, str], key: str, file: str) -> int:
    if key not in values:
        raise Malformed(file, f"{key} is missing")
    return counter(file, key, values[key])


def _per_node(lines: dict[str, list[str]], name: str) -> dict[int, int]:
    file = "memory.numa_stat"
    if not lines.get(name):
        raise Malformed(file, f"no line of {name}")
    pages: dict[int, int] = {}
    for word in lines[name]:
        node, equals, amount = word.partition("=")
        if not equals or not node.startswith("N"):
            raise Malformed(file, f"not a node and an amount: {quoted(word)}")
        pages[counter(file, "node", node[1:])] = counter(file, node, amount)
    return pages
