"""Where the control groups of QoS classes, pods, containers and host applications are, by cgroup driver.

Paths are relative to the root of a hierarchy (version 1: of a controller), without leading or trailing slash. The
Kubernetes QoS class alone decides the directory; the protocol's QoS label does not move a pod. Layout: kubelet's;
container names: those of containerd, docker, cri-o and pouch.
"""

from __future__ import annotations

import re
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
_SCOPE_PREFIX = {"containerd": "cri-containerd-", "docker": "docker-", "cri-o": "crio-", "pouch": "pouch-"}
_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_HOST_APP_PARENT = {
    "LSE": "host-latency-sensitive",
    "LSR": "host-latency-sensitive",
    "LS": "host-latency-sensitive",
    "BE": "host-best-effort",
}
_HOST_APP_BASE: dict[str, KubeQos] = {
    "Kubepods": "Guaranteed",
    "KubepodsBurstable": "Burstable",
    "KubepodsBesteffort": "BestEffort",
}


def qos_dir(driver: Driver, qos: KubeQos) -> str:
    """Give the directory of a Kubernetes QoS class; Guaranteed pods sit in the root of all pods."""
    return _QOS_DIR[driver][qos]


def pod_dir(driver: Driver, qos: KubeQos, uid: str) -> str:
    """Give the directory of a pod. Raises ValueError for a uid that could leave its parent."""
    if not _ID.fullmatch(uid) or uid in (".", ".."):
        raise ValueError(f"not a pod uid: {uid[:60]!r}")
    if driver == "systemd":
        return f"{qos_dir(driver, qos)}/{_POD_PREFIX[qos]}{uid.replace('-', '_')}.slice"
    return f"{qos_dir(driver, qos)}/pod{uid}"


def container_dir(driver: Driver, qos: KubeQos, uid: str, container_id: str) -> str | None:
    """Give the directory of a container named `<runtime>://<id>`, as in pod status; None for an unknown runtime."""
    runtime, separator, identity = container_id.partition("://")
    prefix = _SCOPE_PREFIX.get(runtime)
    if not separator or prefix is None or not _ID.fullmatch(identity) or identity in (".", ".."):
        return None
    name = f"{prefix}{identity}.scope" if driver == "systemd" else identity
    return f"{pod_dir(driver, qos, uid)}/{name}"


def pod_id_of(driver: Driver, basename: str) -> str | None:
    """Read the pod id from a directory's name, None for other directories; systemd's form keeps its underscores."""
    if driver == "cgroupfs":
        return basename.removeprefix("pod") or None if basename.startswith("pod") else None
    for prefix in _POD_PREFIX.values():
        if basename.startswith(prefix) and basename.endswith(".slice"):
            return basename.removeprefix(prefix).removesuffix(".slice") or None
    return None


def pod_uid_of(driver: Driver, basename: str) -> str | None:
    """Read the pod's uid as Kubernetes writes it; None also for a name that no uid gives (any bytes can be a name)."""
    identity = pod_id_of(driver, basename)
    if identity is None or not _ID.fullmatch(identity):
        return None
    return identity.replace("_", "-") if driver == "systemd" else identity


def container_id_of(driver: Driver, basename: str) -> str | None:
    """Read the container id from a directory's name, None for other directories."""
    if driver == "cgroupfs":
        return basename or None
    if basename.endswith(".scope"):
        for prefix in ("docker-", "cri-containerd-", "crio-"):
            if basename.startswith(prefix):
                return basename.removeprefix(prefix).removesuffix(".scope") or None
        return None
    return basename.removeprefix("crio-") or None if basename.startswith("crio-") else None


def host_app_dir(
    driver: Driver, name: str, qos: str = "", *, base: str | None = None, parent_dir: str = "", relative_path: str = ""
) -> str:
    """Give the directory of a host application.

    Without `base` it is chosen by QoS class; with it, base directory, parent and relative path are joined, and an
    unknown base is the root. Parts that would climb out (`..`) are dropped.
    """
    if base is None:
        return _joined(_HOST_APP_PARENT.get(qos, ""), name)
    qos_of_base = _HOST_APP_BASE.get(base)
    return _joined("" if qos_of_base is None else qos_dir(driver, qos_of_base), parent_dir, relative_path)


def _joined(*parts: str) -> str:
    return "/".join(step for part in parts for step in part.split("/") if step not in ("", ".", ".."))
