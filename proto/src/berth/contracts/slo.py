"""SLO: the quality-of-service strategy of each node, one message per node, written by slo-manager alone."""

from __future__ import annotations

from typing import Any

from berth.contracts.base import Integer, Message, Part, Problem

CONFIG_MAP = "berth-system/slo-controller-config"
"""The ConfigMap of strategies, `namespace/name`, unless services are configured with another one."""


class CpuSuppress(Part, frozen=True, kw_only=True):
    """The rule for the CPU of best-effort pods: they get what others leave below `threshold_percent` of the node.

    They keep `min_percent` of the node in any case, nothing when it is None. `policy` is the knob: `cpuset` or
    `cfsQuota`. While not `enabled`, nothing holds them.
    """

    enabled: bool = False
    threshold_percent: Integer = 65
    min_percent: Integer | None = None
    policy: str = "cpuset"


class NodeSLO(Message, frozen=True, kw_only=True, tag="nodeslo.set.v1"):
    """The strategy of one node.

    `spec` is that of the NodeSLO object, whole, with the protocol's names; `cpu_suppress` repeats of it, typed, what
    Berth's node agent heeds. `strategies` names the node strategy that won, by section of the spec; a section that is
    not there follows the cluster's strategy. `uid` is the node's. `configured`: the ConfigMap exists; without it the
    defaults hold, and no NodeSLO object is made of them. `revision` is that of the last request for the object.
    `annotations` are those that slo-manager has the node show, by name; None: that it has none of the name.
    """

    node: str
    uid: str = ""
    cpu_suppress: CpuSuppress = CpuSuppress()
    strategies: dict[str, str] = {}
    spec: dict[str, Any] = {}
    problems: list[Problem] = []
    configured: bool = True
    revision: Integer = 0
    annotations: dict[str, str | None] = {}
