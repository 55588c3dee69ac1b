"""Every file that a law may set: where it is in both versions of control groups, and how its text is made and compared.

Values are those of version 2, as text; a quota is microseconds in 100 ms, `max` where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

Root = Literal["cgroup", "proc", "sys", "host", "act"]
"""Where folders begin: control groups, /proc, /sys, the host's files; `act`: no file, something that is done."""
Kind = Literal["number", "quota", "cpus", "weight", "line", "word", "ids", "text", "folder"]
"""How a text is compared and written.

`number`: `max` is the largest. `quota`: `cpu.max` and its version 1. `cpus`: a list. `weight`: CPU shares, which
version 2 has as a weight. `line`: one line of a file, whose first word is the key and the value the rest; it is written
alone. `word`: one word of a file, which `NO_` switches off. `ids`: each is written by itself, and never undone. `text`:
the whole file, below the root `host` one that need not be there. `folder`: it has to be there.
"""
Within = Literal["", "smaller", "union"]
"""How a child fits into its parent: not at all, by an amount that is not larger, by being part of the parent's set."""


class Knob(NamedTuple):
    """A file. `v1` or `v2` empty: that version has none; a file that is in no control group has its name in both.

    `low` and `high` limit numbers before they are written. `default` is what a line is set to when it is undone and was
    not there before; for a number None: what was found.
    """

    name: str
    v1: str = ""
    v2: str = ""
    controller: str = ""
    kind: Kind = "number"
    within: Within = ""
    root: Root = "cgroup"
    low: int | None = None
    high: int | None = None
    default: str | None = None


CPU_QUOTA: Final = "cpu.quota"
CPU_BURST: Final = "cpu.burst"
CPU_SHARES: Final = "cpu.shares"
CPUSET: Final = "cpuset.cpus"
QUOTA_LIMIT: Final = "cpu.quota/limit"
QUOTA_SCALE: Final = "cpu.quota/scale"
QUOTA_BURST: Final = "cpu.quota/burst"
"""What strategies say of the quota of a pod or container, which `core.compose` makes one value of: the limit instead of
kubelet's (microseconds in 100 ms), by how much the node's CPUs do more than the reference's, and a quota above the
limit."""
CPU_STAT: Final = "cpu.stat"
CPU_USAGE: Final = "cpuacct.usage"
"""Counters, which are read only."""
MEMORY_MIN: Final = "memory.min"
MEMORY_LOW: Final = "memory.low"
MEMORY_HIGH: Final = "memory.high"
MEMORY_MAX: Final = "memory.max"

CPU_KNOBS: Final = (
    Knob(CPU_QUOTA, "cpu.cfs_quota_us", "cpu.max", "cpu", "quota", "smaller"),
    Knob(CPU_BURST, "cpu.cfs_burst_us", "cpu.max.burst", "cpu", low=0),
    Knob(CPU_SHARES, "cpu.shares", "cpu.weight", "cpu", "weight", low=2, high=262_144),
    Knob(CPUSET, "cpuset.cpus", "cpuset.cpus", "cpuset", "cpus", "union"),
    Knob(CPU_STAT, "cpu.stat", "cpu.stat", "cpu", "text"),
    Knob(CPU_USAGE, "cpuacct.usage", "cpu.stat", "cpuacct", "text"),
)
MEMORY_KNOBS: Final = (
    Knob(MEMORY_MIN, "memory.min", "memory.min", "memory", within="smaller", low=0),
    Knob(MEMORY_LOW, "memory.low", "memory.low", "memory", within="smaller", low=0),
    Knob(MEMORY_HIGH, "memory.high", "memory.high", "memory", within="smaller", low=0),
    Knob(MEMORY_MAX, "memory.limit_in_bytes", "memory.max", "memory", within="smaller", low=0),
    Knob("memory.wmark_ratio", "memory.wmark_ratio", "memory.wmark_ratio", "memory", low=0, high=100),
    Knob(
        "memory.wmark_scale_factor",
        "memory.wmark_scale_factor",
        "memory.wmark_scale_factor",
        "memory",
        low=1,
        high=1000,
    ),
    Knob("memory.wmark_min_adj", "memory.wmark_min_adj", "memory.wmark_min_adj", "memory", low=-25, high=50),
    Knob("memory.priority", "memory.priority", "memory.priority", "memory", low=0, high=12),
    Knob("memory.use_priority_oom", "memory.use_priority_oom", "memory.use_priority_oom", "memory", low=0, high=1),
    Knob("memory.oom.group", "memory.oom.group", "memory.oom.group", "memory", low=0, high=1),
)
MEMORY_QOS: Final = tuple(knob.name for knob in MEMORY_KNOBS if knob.name != MEMORY_MAX)
"""What memory QoS sets."""


def by_name(*tables: Iterable[Knob]) -> Mapping[str, Knob]:
    """A table of knobs. Two of one name are a mistake of whoever wrote them."""
    found: dict[str, Knob] = {}
    for knob in (knob for table in tables for knob in table):
        if knob.name in found:
            raise AssertionError(f"two knobs are called {knob.name}")
        found[knob.name] = knob
    return found


KNOBS: Final = by_name(CPU_KNOBS, MEMORY_KNOBS)
"""All of them."""
