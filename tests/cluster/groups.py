"""Control groups as the kernel has them: how much CPU a group may use, how much it did, how often it was held back."""

from __future__ import annotations

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


def _used_s(group: str) -> float:
    if VERSION_2:
        return _stat(group)["usage_usec"] / 1e6
    return int((CGROUPS / "cpuacct" / group / "cpuacct.usage").read_text()) / 1e9


def watched(group: str, seconds: float, quota_of: str = BEST_EFFORT) -> Use:
    """Look at a group for a while: what it used, and the quotas that held meanwhile."""
    began, used, throttled = time.monotonic(), _used_s(group), _stat(quota_of)["nr_throttled"]
    quotas = [quota_us(quota_of)]
    while time.monotonic() < began + seconds:
        time.sleep(0.2)
        quotas.append(quota_us(quota_of))
    took = time.monotonic() - began
    return Use((_used_s(group) - used) / took, _stat(quota_of)["nr_throttled"] - throttled, quotas)


def pod_group(uid: str, qos: str) -> str:
    """Where kubelet keeps a pod; `qos`: besteffort or burstable."""
    return f"kubepods/{qos}/pod{uid}"


def has_pod(uid: str, qos: str) -> bool:
    """Whether a pod has its group."""
    root = CGROUPS if VERSION_2 else CGROUPS / "cpu"
    return Path(root / pod_group(uid, qos)).is_dir()
