"""Memory that nobody touches, as kidled tells it, and what counts as used under each policy."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.node_qos_enforcer.core.cgroup_files import MemoryStat
from berth.node_qos_enforcer.core.malformed import Malformed, counter, quoted
from berth.node_qos_enforcer.core.proc import MemInfo

FILE: Final = "memory.idle_page_stats"
WITHOUT_CACHE: Final = "usageWithoutPageCache"
HOT_CACHE: Final = "usageWithHotPageCache"
WITH_CACHE: Final = "usageWithPageCache"
COLD_FROM: Final = 5
"""From this bucket on, pages have been idle so long that they are cold."""
_LINES: Final = 31
_HEADER: Final = ("version", "page_scans", "slab_scans", "scan_period_in_seconds", "use_hierarchy", "buckets")
_LEGEND: Final = 8
_ROWS: Final = (
    *("csei", "dsei", "cfei", "dfei", "csui", "dsui", "cfui", "dfui"),
    *("csea", "dsea", "cfea", "dfea", "csua", "dsua", "cfua", "dfua"),
    "slab",
)
_COLD: Final = ("cfei", "dfei", "cfui", "dfui")
"""Inactive pages of files, clean and dirty, evictable or not."""


class IdlePages(NamedTuple):
    """The file, read: how it was scanned, from how many scans on each bucket counts, bytes of each kind by bucket."""

    version: str
    page_scans: int
    slab_scans: int
    scan_period_in_seconds: int
    use_hierarchy: int
    buckets: tuple[int, ...]
    rows: dict[str, tuple[int, ...]]

    @property
    def is_scanned(self) -> bool:
        """Whether pages are told apart at all: kidled runs, and has been through memory."""
        return self.scan_period_in_seconds > 0 and self.page_scans > 0

    @property
    def cold_bytes(self) -> int:
        """Page cache that could go without being missed."""
        return sum(sum(self.rows[name][COLD_FROM:]) for name in _COLD)


def parse_idle_pages(text: str) -> IdlePages:
    """Parse the file. Raises Malformed unless it is whole."""
    lines = [line.strip() for line in text.splitlines()]
    if len(lines) != _LINES:
        raise Malformed(FILE, f"has {len(lines)} lines, not {_LINES}")
    values: dict[str, str] = {}
    for name, line in zip(_HEADER, lines, strict=False):
        key, colon, value = line.removeprefix("#").partition(":")
        if not colon or key.strip() != name:
            raise Malformed(FILE, f"{name} is missing: {quoted(line)}")
        values[name] = value.strip()
    buckets = tuple(counter(FILE, "buckets", word.strip()) for word in values["buckets"].split(","))
    rows: dict[str, tuple[int, ...]] = {}
    for name, line in zip(_ROWS, lines[len(_HEADER) + _LEGEND :], strict=True):
        words = line.split()
        if not words or words[0] != name or len(words) != len(buckets) + 1:
            raise Malformed(FILE, f"row {name} is missing or torn: {quoted(line)}")
        rows[name] = tuple(counter(FILE, name, word) for word in words[1:])
    pages, slabs, period_s, hierarchy = (counter(FILE, name, values[name]) for name in _HEADER[1:5])
    return IdlePages(values["version"], pages, slabs, period_s, hierarchy, buckets, rows)


def node_usage(policy: str, memory: MemInfo, cold_bytes: int) -> int:
    """Memory of the node in use under a policy; one that is not known counts as the default."""
    if policy == WITH_CACHE:
        return memory.total_bytes - memory.free_bytes
    if policy == HOT_CACHE:
        return max(memory.total_bytes - memory.free_bytes - cold_bytes, 0)
    return memory.used_bytes


def group_usage(policy: str, stat: MemoryStat, cold_bytes: int) -> int:
    """Memory of a control group in use; with its whole page cache it is what the kernel counts, in another file."""
    if policy == HOT_CACHE:
        return max(stat.usage_without_page_cache + stat.inactive_file + stat.active_file - cold_bytes, 0)
    return stat.usage_without_page_cache
