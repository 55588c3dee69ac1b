"""Bandwidth of classes and pods, enforced by Terway's own daemon: two files that it reads."""

from __future__ import annotations

from typing import Any, Final

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.laws.bandwidth import (
    TERWAY,
    level_in_bytes,
    level_of_pod,
    pod_limits,
    terway_node_text,
    terway_pod,
    terway_pods_text,
)
from berth.node_qos_enforcer.core.strategies.knobs import TERWAY_NODE, TERWAY_PODS
from berth.node_qos_enforcer.core.strategies.network import BLOCK, total_bits
from berth.node_qos_enforcer.core.strategies.node_slo import BE_CLASS, LS_CLASS
from berth.node_qos_enforcer.core.strategies.seam import Decided, Mount, Needs, Snapshot, Spec, Strategy, Wanted
from berth.node_qos_enforcer.core.strategies.sections import block_of, policy_of

FOLDER: Final = "var/lib/terway/qos"
GROUPS: Final = "/sys/fs/cgroup/net_cls"


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """Give both files. A class that cannot be used leaves the node's file as it is."""
    total = total_bits(spec)
    reports: list[Problem] = []
    entries: dict[str, dict[str, Any]] = {}
    for pod in snapshot.pods:
        limits = pod_limits(pod.annotations)
        if isinstance(limits, Problem):
            reports.append(Problem(field=f"{pod.key}.{limits.field}"[:300], message=limits.message))
        elif pod.is_known and pod.group:
            entries[pod.uid] = terway_pod(
                name=pod.name,
                namespace=pod.namespace,
                uid=pod.uid,
                level=level_of_pod(pod.qos, pod.kube_qos),
                cgroup_dir=f"{GROUPS}/{pod.group}",
                limits=limits,
            )
    level_1, level_2 = (
        level_in_bytes(total, block_of(spec, name, BLOCK), f"{name}.{BLOCK}") for name in (LS_CLASS, BE_CLASS)
    )
    if isinstance(level_1, Problem) or isinstance(level_2, Problem):
        reports += [each for each in (level_1, level_2) if isinstance(each, Problem)]
        node = Wanted(FOLDER, TERWAY_NODE, None)
    else:
        node = Wanted(FOLDER, TERWAY_NODE, terway_node_text(total, level_1, level_2).strip())
    return Decided((node, Wanted(FOLDER, TERWAY_PODS, terway_pods_text(entries))), reports=tuple(reports))


def _is_on(spec: Spec) -> bool:
    return policy_of(spec, "netQOSPolicy") == TERWAY


TERWAY_QOS: Final = Strategy(
    "terway-qos",
    "enforce-network",
    decide,
    _is_on,
    needs=Needs(knobs=(TERWAY_NODE, TERWAY_PODS), files=(f"/{FOLDER}",), mounts=(Mount(f"/{FOLDER}", writes=True),)),
    is_steady=True,
)
