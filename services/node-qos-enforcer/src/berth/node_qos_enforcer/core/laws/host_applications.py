"""Where processes outside of pods have their control group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import LABEL_PRIORITY_CLASS, LABEL_QOS
from berth.node_qos_enforcer.core.cgroup_paths import Driver, KubeQos, qos_dir
from berth.rules.cpus.qos import BE, LS, LSE, LSR, QOS_CLASSES, priority_class, priority_class_or_default

BEST_EFFORT_BASE: Final = "KubepodsBesteffort"
_BASES: Final[dict[str, KubeQos]] = {
    "Kubepods": "Guaranteed",
    "KubepodsBurstable": "Burstable",
    BEST_EFFORT_BASE: "BestEffort",
}
_DEFAULT_DIR: Final = {
    LSE: "host-latency-sensitive/",
    LSR: "host-latency-sensitive/",
    LS: "host-latency-sensitive/",
    BE: "host-best-effort/",
}


class HostApplication(NamedTuple):
    """One of the node's applications; `base` is what its group lies below, as the strategy names it. `priority_class`
    is the one that it says, else that of its QoS class."""

    name: str
    qos: str
    base: str
    group: str
    priority_class: str = ""

    @property
    def is_best_effort(self) -> bool:
        """Whether it is held with the best-effort pods: by class, and by where it lies."""
        return is_best_effort(self.qos, self.base)


def is_best_effort(qos: str, base: str) -> bool:
    """Whether an application is held with the best-effort pods."""
    return qos == BE and base == BEST_EFFORT_BASE


def application_of(raw: Mapping[str, Any], driver: Driver, field: str) -> HostApplication | Problem:
    """Read one entry of the strategy. A path that would lead out of its base is refused."""
    name, qos = _text(raw.get("name")), _text(raw.get("qos"))
    where = raw.get("cgroupPath")
    if not isinstance(where, Mapping):
        group, base = _DEFAULT_DIR.get(qos, "") + name, ""
    else:
        base = _text(where.get("base"))
        above = _BASES.get(base)
        steps = (
            "" if above is None else qos_dir(driver, above),
            _text(where.get("parentDir")),
            _text(where.get("relativePath")),
        )
        group = "/".join(steps)
    parts = [part for part in group.split("/") if part]
    if ".." in parts or "." in parts or any("\0" in part for part in parts):
        return Problem(field=f"{field}.cgroupPath", message="leads out of its base")
    qos = qos if qos in QOS_CLASSES else ""
    labels = {LABEL_PRIORITY_CLASS: _text(raw.get("priority")), LABEL_QOS: qos}
    priority = priority_class_or_default(labels, None, "") if qos else priority_class(labels, None)
    return HostApplication(name, qos, base, "/".join(parts), priority)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
