"""What a node's kubelet and labels say of CPUs and NUMA nodes: nodes of one make are judged once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts.names import LABEL_CPU_BIND_POLICY, LABEL_NUMA_POLICY, LABEL_NUMA_STRATEGY
from berth.placement_solver.core.cores.ground import NOWHERE, Ground
from berth.rules.cpus.bind_policy import node_bind_policy
from berth.rules.cpus.kubelet import FULL_CORES_OPTION, STATIC, CpuManager, numa_policy
from berth.rules.cpus.layout import CpuLayout

LABELS: Final = (LABEL_CPU_BIND_POLICY, LABEL_NUMA_POLICY, LABEL_NUMA_STRATEGY)


class Make(NamedTuple):
    """`labels` are those of `LABELS`, in that order. `policy` is the NUMA policy that holds on the node."""

    labels: tuple[str, ...] = ("", "", "")
    is_static: bool = False
    full_cores: bool = False
    layout: CpuLayout | None = None
    policy: str = ""
    has_zones: bool = False

    @property
    def manager(self) -> CpuManager:
        """Kubelet's CPU manager, as far as it matters here."""
        return CpuManager(STATIC if self.is_static else "", {FULL_CORES_OPTION: "true"} if self.full_cores else {})

    @property
    def by_name(self) -> Mapping[str, str]:
        """The labels as a node has them."""
        return {name: text for name, text in zip(LABELS, self.labels, strict=True) if text}

    @property
    def imposes(self) -> bool:
        """Whether the node may give CPUs or NUMA nodes to pods that ask for neither."""
        bound = node_bind_policy(self.by_name, self.manager) or node_bind_policy(self.by_name, CpuManager())
        return bool(bound or self.policy)


PLAIN: Final = Make()


def make_of(labels: Mapping[str, str], ground: Ground) -> Make:
    """The make of a node with these labels."""
    said = tuple(labels.get(name, "") for name in LABELS)
    if ground is NOWHERE and not any(said):
        return PLAIN
    return Make(
        labels=said,
        is_static=ground.manager.is_static,
        full_cores=ground.manager.full_cores_only,
        layout=ground.layout,
        policy=numa_policy(ground.policy, labels.get(LABEL_NUMA_POLICY, "")),
        has_zones=bool(ground.capacity),
    )
