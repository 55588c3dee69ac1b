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
    """`labels` are those of `LABELS`, in that order. `policy` is the NUMA policy that holds on the node.
    `is_amplified`: it shows more cpu than it has. `is_ratio_broken`: nobody can read how much more."""

    labels: tuple[str, ...] = ("", "", "")
    is_static: bool = False
    full_cores: bool = False
    layout: CpuLayout | None = None
    policy: str = ""
    has_zones: bool = False
    is_amplified: bool = False
    is_ratio_broken: bool = False

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
        """Whether pods that ask for neither CPUs nor NUMA nodes have to be looked at for this node."""
        bound = node_bind_policy(self.by_name, self.manager) or node_bind_policy(self.by_name, CpuManager())
        return bool(bound or self.policy or self.is_amplified or self.is_ratio_broken)


PLAIN: Final = Make()


def make_of(labels: Mapping[str, str], ground: Ground, ratio: float | None = 1.0) -> Make:
    """The make of a node with these labels; `ratio` is how many times its cpu it shows, None: nobody can read it."""
    said = tuple(labels.get(name, "") for name in LABELS)
    if ground is NOWHERE and not any(said) and ratio == 1.0:
        return PLAIN
    return Make(
        labels=said,
        is_static=ground.manager.is_static,
        full_cores=ground.manager.full_cores_only,
        layout=ground.layout,
        policy=numa_policy(ground.policy, labels.get(LABEL_NUMA_POLICY, "")),
        has_zones=bool(ground.capacity),
        is_amplified=ratio is not None and ratio > 1,
        is_ratio_broken=ratio is None,
    )
