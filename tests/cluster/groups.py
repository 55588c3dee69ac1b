"""Control groups as the kernel has them: how much CPU a group may use, how much it did, how often it was held back."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from tests.cluster.requirements import CGROUPS

UNLIMITED = -1
VERSION_2 = (CGROUPS / "cgroup.controllers").exists()
BEST_EFFORT = "kubepods/besteffort"


class Use(NamedTuple):
    """What was seen of a group over a while."""

    cores: float
    throttled: int
    quotas_us: list[int]


def quota_us(group: str = BEST_EFFORT) -> int:
    """CPU time of a group in 100 ms; UNLIMITED: as much as there is."""
    if VERSION_2:
        word = (CGROUPS / group / "cpu.max").read_text().split()[0]
        return UNLIMITED if word == "max" else int(word)
    return int((CGROUPS / "cpu" / group / "cpu.cfs_quota_us").read_text())


def _stat(group: str) -> dict[str, int]:
    path = CGROUPS / group if VERSION_2 else CGROUPS / "cpu" / group
    return {name: int(value) for name, value in map(str.split, (path / "cpu.stat").read_text().splitlines())}


def used_s(group: str) -> float:
    """CPU time that a group has used."""
    if VERSION_2:
        return _stat(group)["usage_usec"] / 1e6
    return int((CGROUPS / "cpuacct" / group / "cpuacct.usage").read_text()) / 1e9


def busy_s() -> float:
    """Seconds that the machine's CPUs were not idle."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _, _, irq, soft, steal = map(int, words[:8])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def busy_cores(seconds: float) -> float:
    """Cores of the machine in use, over a while."""
    before, began = busy_s(), time.monotonic()
    time.sleep(seconds)
    return (busy_s() - before) / (time.monotonic() - began)


def watched(group: str, seconds: float, quota_of: str = BEST_EFFORT) -> Use:
    """Look at a group for a while: what it used, and the quotas that held meanwhile."""
    began, used, throttled = time.monotonic(), used_s(group), _stat(quota_of)["nr_throttled"]
    quotas = [quota_us(quota_of)]
    while time.monotonic() < began + seconds:
        time.sleep(0.2)
        quotas.append(quota_us(quota_of))
    took = time.monotonic() - began
    return Use((used_s(group) - used) / took, _stat(quota_of)["nr_throttled"] - throttled, quotas)


def value(group: str, controller: str, version_1: str, version_2: str) -> str | None:
    """The text of a group's file; None: the kernel has no such file, or the group is not there."""
    path = CGROUPS / group / version_2 if VERSION_2 else CGROUPS / controller / group / version_1
    try:
        return path.read_text().strip()
    except OSError:
        return None


def memory_mib(group: str) -> int:
    """Memory that a group uses."""
    return int(value(group, "memory", "memory.usage_in_bytes", "memory.current") or 0) >> 20


def pod_group(uid: str, qos: str) -> str:
    """Where kubelet keeps a pod; `qos`: besteffort or burstable."""
    return f"kubepods/{qos}/pod{uid}"


def has_pod(uid: str, qos: str) -> bool:
    """Whether a pod has its group."""
    root = CGROUPS if VERSION_2 else CGROUPS / "cpu"
    return Path(root / pod_group(uid, qos)).is_dir()
