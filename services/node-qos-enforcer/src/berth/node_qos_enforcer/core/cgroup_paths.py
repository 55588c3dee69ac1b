"""Where kubelet puts the control groups of QoS classes and pods, by cgroup driver.

Paths are relative to the root of a hierarchy (version 1: of a controller), without leading or trailing slash. The
Kubernetes QoS class alone decides the directory; the protocol's QoS label does not move a pod.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Driver = Literal["systemd", "cgroupfs"]
KubeQos = Literal["Guaranteed", "Burstable", "BestEffort"]

DRIVERS: tuple[Driver, ...] = ("systemd", "cgroupfs")
KUBE_QOS: tuple[KubeQos, ...] = ("Guaranteed", "Burstable", "BestEffort")

_QOS_DIR: dict[Driver, dict[KubeQos, str]] = {
    "systemd": {
        "Guaranteed": "kubepods.slice",
        "Burstable": "kubepods.slice/kubepods-burstable.slice",
        "BestEffort": "kubepods.slice/kubepods-besteffort.slice",
    },
    "cgroupfs": {
        "Guaranteed": "kubepods",
        "Burstable": "kubepods/burstable",
        "BestEffort": "kubepods/besteffort",
    },
}
_POD_PREFIX: dict[KubeQos, str] = {
    "Guaranteed": "kubepods-pod",
    "Burstable": "kubepods-burstable-pod",
    "BestEffort": "kubepods-besteffort-pod",
}
_SCOPES_READ = ("docker-", "cri-containerd-", "crio-")
_SANDBOX = "crio-"
"""CRI-O names the group of a pod's sandbox without an end."""
_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def qos_dir(driver: Driver, qos: KubeQos) -> str:
    """Give the directory of a Kubernetes QoS class; Guaranteed pods sit in the root of all pods."""
    return _QOS_DIR[driver][qos]


def pod_id_of(driver: Driver, basename: str) -> str | None:
    """Read the pod id from a directory's name, None for other directories; systemd's form keeps its underscores."""
    if driver == "cgroupfs":
        return basename.removeprefix("pod") or None if basename.startswith("pod") else None
    for prefix in _POD_PREFIX.values():
        if basename.startswith(prefix) and basename.endswith(".slice"):
            return basename.removeprefix(prefix).removesuffix(".slice") or None
    return None


@lru_cache(maxsize=4_096)
def pod_uid_of(driver: Driver, basename: str) -> str | None:
    """Read the pod's uid as Kubernetes writes it; None also for a name that no uid gives (any bytes can be a name)."""
    identity = pod_id_of(driver, basename)
    if identity is None or not _ID.fullmatch(identity):
        return None
    return identity.replace("_", "-") if driver == "systemd" else identity


def pod_dir(driver: Driver, qos: KubeQos, uid: str) -> str:
    """Give the directory of a pod."""
    name = f"pod{uid}" if driver == "cgroupfs" else f"{_POD_PREFIX[qos]}{uid.replace('-', '_')}.slice"
    return f"{_QOS_DIR[driver][qos]}/{name}"


def container_id_of(driver: Driver, basename: str) -> str | None:
    """Read the container's id from a directory's name; None for other directories."""
    if driver == "cgroupfs":
        return basename or None
    for prefix in _SCOPES_READ:
        if basename.startswith(prefix) and basename.endswith(".scope"):
            return basename.removeprefix(prefix).removesuffix(".scope") or None
    return basename.removeprefix(_SANDBOX) or None if basename.startswith(_SANDBOX) else None
