"""Which control group a pod has, from what the runtime says is above its containers."""

from __future__ import annotations

import re
from typing import Final

from berth.node_qos_enforcer.core.cgroup_paths import DRIVERS, KUBE_QOS, KubeQos, pod_uid_of, qos_dir

_STEP: Final = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_SLICE: Final = ".slice"


def pod_group(cgroup_parent: str, uid: str) -> str | None:
    """The group relative to the root of a hierarchy; None unless it is the one that kubelet makes for this pod.

    systemd's form may be the last step alone: what is above it follows from its dashes.
    """
    path = cgroup_parent.strip("/")
    if path.endswith(_SLICE) and "/" not in path:
        words = path.removesuffix(_SLICE).split("-")
        path = "/".join("-".join(words[: end + 1]) + _SLICE for end in range(len(words)))
    above, _, name = path.rpartition("/")
    if not all(_STEP.fullmatch(step) and step not in (".", "..") for step in path.split("/")):
        return None
    for driver in DRIVERS:
        if above in (qos_dir(driver, qos) for qos in KUBE_QOS) and pod_uid_of(driver, name) == uid:
            return path
    return None


def kube_qos_of(cgroup_parent: str, uid: str) -> KubeQos | None:
    """Kubernetes' class of a pod, by where its group is; None: that is not kubelet's."""
    above = (pod_group(cgroup_parent, uid) or "").rpartition("/")[0]
    return next((qos for driver in DRIVERS for qos in KUBE_QOS if above and qos_dir(driver, qos) == above), None)
