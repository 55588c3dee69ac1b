"""Every file that a law may set: where it is in both versions of control groups, and how its text is made and compared.

Values are those of version 2, as text; a quota is microseconds in 100 ms, `max` where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

Root = Literal["cgroup", "proc", "sys", "host", "act"]
"""Where folders begin: control groups, /proc, /sys, the host's files; `act`: no file, something that is done."""
Kind = Literal["number", "quota", "cpus", "weight", "line", "word", "ids", "text", "folder", "schemata"]
"""How a text is compared and written.

`number`: `max` is the largest. `quota`: `cpu.max` and its version 1. `cpus`: a list. `weight`: CPU shares, which
version 2 has as a weight. `line`: one line of a file, whose first word is the key and the value the rest; it is written
alone. `word`: one word of a file, which `NO_` switches off. `ids`: each is written by itself, and never undone. `text`:
the whole file, below the root `host` one that need not be there. `folder`: it has to be there.
`schemata`: one line of resctrl, compared by cache.
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


def _elsewhere(
    name: str, file: str, root: Root, *, kind: Kind = "number", low: int | None = None, high: int | None = None
) -> Knob:
    """A file that is in no control group."""
    return Knob(name, file, file, "", kind, root=root, low=low, high=high)


BVT: Final = "cpu.bvt_warp_ns"
CPU_IDLE: Final = "cpu.idle"
IDENTITY_ENABLED: Final = "kernel.sched_group_identity_enabled"
SCHED_CORE: Final = "kernel.sched_core"
IDENTITY_KNOBS: Final = (
    Knob(BVT, BVT, BVT, "cpu", low=-1, high=2),
    Knob(CPU_IDLE, CPU_IDLE, CPU_IDLE, "cpu", low=0, high=1),
    _elsewhere(IDENTITY_ENABLED, "sched_group_identity_enabled", "proc", low=0, high=1),
    _elsewhere(SCHED_CORE, "sched_core", "proc", low=0, high=1),
)

SCHED_FEATURES: Final = "kernel.sched_features"
FEATURES: Final = "kernel.sched.features"
"""The same where newer kernels have it."""
SETTINGS: Final = {
    "min_free_kbytes": "vm.min_free_kbytes",
    "watermark_scale_factor": "vm.watermark_scale_factor",
    "sched_group_identity_enabled": IDENTITY_ENABLED,
    "sched_idle_saver_wmark": "kernel.sched_idle_saver_wmark",
    "reap_background": "mm.reap_background",
    "enabled": "mm.pagecache_limit",
}
"""Settings of the kernel by the name of their file."""
KIDLED_PERIOD: Final = "kidled.scan_period_in_seconds"
KIDLED_HIERARCHY: Final = "kidled.use_hierarchy"
OOM_SCORE: Final = "proc.oom_score_adj"
KERNEL_KNOBS: Final = (
    _elsewhere("vm.min_free_kbytes", "min_free_kbytes", "proc"),
    _elsewhere("vm.watermark_scale_factor", "watermark_scale_factor", "proc"),
    _elsewhere("kernel.sched_idle_saver_wmark", "sched_idle_saver_wmark", "proc"),
    _elsewhere("mm.reap_background", "reap_background", "sys"),
    _elsewhere("mm.pagecache_limit", "enabled", "sys"),
    _elsewhere(SCHED_FEATURES, "sched_features", "sys", kind="word"),
    _elsewhere(FEATURES, "features", "sys", kind="word"),
    _elsewhere(KIDLED_PERIOD, "scan_period_in_seconds", "sys"),
    _elsewhere(KIDLED_HIERARCHY, "use_hierarchy", "sys"),
    _elsewhere(OOM_SCORE, "oom_score_adj", "proc", low=-1000, high=1000),
)

THREADS: Final = "cgroup.threads"
PROCESSES: Final = "cgroup.procs"
CACHE_GROUP: Final = "resctrl.group"
CACHE_WAYS: Final = "resctrl.cbm_mask"
SCHEMATA: Final = "resctrl.schemata"
TASKS: Final = "resctrl.tasks"
CACHE_KNOBS: Final = (
    Knob(THREADS, "tasks", THREADS, "cpu", "ids"),
    Knob(PROCESSES, PROCESSES, PROCESSES, "cpu", "ids"),
    _elsewhere(CACHE_GROUP, "", "sys", kind="folder"),
    _elsewhere(CACHE_WAYS, "cbm_mask", "sys", kind="text"),
    _elsewhere(SCHEMATA, "schemata", "sys", kind="schemata"),
    _elsewhere(TASKS, "tasks", "sys", kind="ids"),
)

NO_MAX: Final = "rbps=max wbps=max riops=max wiops=max"
_THROTTLES: Final = tuple(
    f"blkio.throttle.{way}_{unit}_device" for way in ("read", "write") for unit in ("iops", "bps")
)
DISK_KNOBS: Final = {
    each: each
    for each in (
        *(*_THROTTLES, "blkio.cost.weight", "blkio.cost.qos", "blkio.cost.model"),
        *("io.max", "io.weight", "io.cost.qos", "io.cost.model"),
    )
}
"""Files about disks, by themselves."""
_DISKS: Final = (
    *(Knob(each, each, "", "blkio", "line", default="0") for each in _THROTTLES),
    Knob("blkio.cost.weight", "blkio.cost.weight", "", "blkio", "line", default="100"),
    Knob("blkio.cost.qos", "blkio.cost.qos", "", "blkio", "line", default="enable=0"),
    Knob("blkio.cost.model", "blkio.cost.model", "", "blkio", "line", default="ctrl=auto"),
    Knob("io.max", "", "io.max", "blkio", "line", default=NO_MAX),
    Knob("io.weight", "", "io.weight", "blkio", "line", default="default"),
    Knob("io.cost.qos", "", "io.cost.qos", "blkio", "line", default="enable=0 ctrl=auto"),
    Knob("io.cost.model", "", "io.cost.model", "blkio", "line", default="ctrl=auto"),
)

PAGE_CACHE_SIZE: Final = "memory.pagecache_limit.size"
PAGE_CACHE_ENABLE: Final = "memory.pagecache_limit.enable"
PAGE_CACHE_SYNC: Final = "memory.pagecache_limit.sync"
PAGE_CACHE_KNOBS: Final = (
    Knob(PAGE_CACHE_SIZE, "", PAGE_CACHE_SIZE, "memory", low=0),
    Knob(PAGE_CACHE_ENABLE, "", PAGE_CACHE_ENABLE, "memory", low=0, high=1),
    Knob(PAGE_CACHE_SYNC, "", PAGE_CACHE_SYNC, "memory", low=0, high=1),
)

ROUTES: Final = "net.route"
CLASS_ID: Final = "net_cls.classid"
NET_TREE: Final = "net.tree"
NET_CLASSES: Final = "net.classes"
TERWAY_NODE: Final = "terway.global_bps_config"
TERWAY_PODS: Final = "terway.pods"
NETWORK_KNOBS: Final = (
    _elsewhere(ROUTES, "route", "proc", kind="text"),
    Knob(CLASS_ID, CLASS_ID, "", "net_cls"),
    _elsewhere(NET_TREE, "", "act", kind="text"),
    _elsewhere(NET_CLASSES, "", "act", kind="text"),
    _elsewhere(TERWAY_NODE, "global_bps_config", "host", kind="text"),
    _elsewhere(TERWAY_PODS, "pod.json", "host", kind="text"),
)

CORE_COOKIE: Final = "core_sched.cookie"
CORE_KNOBS: Final = (_elsewhere(CORE_COOKIE, "", "act", kind="text"),)


CYCLES: Final = "perf.cycles"
STALLS: Final = "psi.stalls"
LOOKED_AT: Final = (_elsewhere(CYCLES, "", "act", kind="text"), _elsewhere(STALLS, "", "act", kind="text"))
"""What is seen of a group; nothing is set."""


def by_name(*tables: Iterable[Knob]) -> Mapping[str, Knob]:
    """A table of knobs. Two of one name are a mistake of whoever wrote them."""
    found: dict[str, Knob] = {}
    for knob in (knob for table in tables for knob in table):
        if knob.name in found:
            raise AssertionError(f"two knobs are called {knob.name}")
        found[knob.name] = knob
    return found


KNOBS: Final = by_name(
    CPU_KNOBS,
    MEMORY_KNOBS,
    IDENTITY_KNOBS,
    KERNEL_KNOBS,
    CACHE_KNOBS,
    _DISKS,
    PAGE_CACHE_KNOBS,
    NETWORK_KNOBS,
    CORE_KNOBS,
    LOOKED_AT,
)
"""All of them."""
