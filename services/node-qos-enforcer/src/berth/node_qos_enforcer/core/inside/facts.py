"""What is known of the node when a container is created: all in memory, none of it asked for then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from berth.contracts.inventory import NodeInventory
from berth.node_qos_enforcer.core.node_facts import UNKNOWN, NodeFacts
from berth.node_qos_enforcer.core.strategies.seam import Spec
from berth.node_qos_enforcer.core.topology import Processor
from berth.rules.cpus.kubelet import STATIC, Checkpoint, HeldCpus
from berth.rules.cpus.layout import Cpu, CpuLayout

NO_LAYOUT: Final = CpuLayout(())
NO_CHECKPOINT: Final = Checkpoint()


@dataclass(frozen=True, kw_only=True)
class InsideFacts:
    """`layout` has no CPUs while it is not known, and `inventory` is None then. `checkpoint` is kubelet's, `held` what
    its PodResources say of CPUs that pods have of it, and `gives_cpus` that it gives out any.

    `library` is HAMi-core on the node; `monitors`: containers with a shared GPU keep figures for the node to read.
    `gives_back`: containers get no CPUs and no quota, and those that have some lose them. `batch_quota`: each batch
    container has a quota of its own. `cache_groups` are the resctrl groups that are there while parts of the caches are
    given out, by name; `spec` is the node's specification.
    """

    layout: CpuLayout = NO_LAYOUT
    node: NodeFacts = UNKNOWN
    checkpoint: Checkpoint = NO_CHECKPOINT
    held: tuple[HeldCpus, ...] = ()
    gives_cpus: bool = False
    inventory: NodeInventory | None = None
    library: str = "/usr/local/vgpu/libvgpu.so"
    monitors: bool = False
    gives_back: bool = False
    batch_quota: bool = True
    cache_groups: frozenset[str] = frozenset()
    spec: Spec = field(default_factory=dict)

    @property
    def kubelet_is_static(self) -> bool:
        """Whether kubelet gives out CPUs itself."""
        return self.checkpoint.policy == STATIC or self.gives_cpus


def layout_of(processors: Iterable[Processor]) -> CpuLayout:
    """The CPUs that are online, where they are."""
    return CpuLayout(Cpu(row.cpu, row.core, row.socket, row.node) for row in processors)
