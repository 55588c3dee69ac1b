"""What the plugin knows: pods and containers by the runtime, facts of the node by the bus and by its files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from berth.bus.port import Entry
from berth.contracts.base import Problem
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.inventory import NodeInventory
from berth.contracts.node_report import HeldByContainer
from berth.node_qos_enforcer.core.held import cpus_held
from berth.node_qos_enforcer.core.inside.board import Board
from berth.node_qos_enforcer.core.inside.facts import NO_CHECKPOINT, NO_LAYOUT, InsideFacts, layout_of
from berth.node_qos_enforcer.core.inside.findings import Findings
from berth.node_qos_enforcer.core.inside.seen import ContainerSeen
from berth.node_qos_enforcer.core.strategies.batch_limits import quota_is_per_pod
from berth.node_qos_enforcer.core.topology import Processor
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.views import KnownNode
from berth.rules.cpus.kubelet import Checkpoint, HeldCpus
from berth.rules.cpus.layout import CpuLayout
from berth.rules.cpus.shared_pools import SharedPools


@dataclass
class InventoryView:
    """What INVENTORY says of one node; a sink that sees this key alone. What is known stays while it is read anew."""

    key: str
    inventory: NodeInventory | None = None
    is_known: bool = False
    """Whether the bucket was read to its end once."""
    kept: NodeInventory | None = None
    """What a former process knew: it counts until the bucket says something. One that was lost says nothing."""
    problem: Problem | None = None

    @property
    def latest(self) -> NodeInventory | None:
        """What is known now, of the bus or of before."""
        return self.inventory if self.inventory is not None else self.kept

    def reset(self) -> None:
        """Keep what is known."""

    def apply(self, entry: Entry) -> None:
        """Take the newest inventory; one that cannot be read leaves that of before."""
        if entry.key != self.key:
            return
        self.problem = None
        if entry.deleted:
            self.inventory = self.kept = None
            return
        try:
            self.inventory = decode(entry.value, NodeInventory)
        except InvalidMessage as error:
            self.problem = Problem(field=f"inventory.{self.key}", message=str(error)[:200])

    def end(self, sequence: int) -> None:
        """What is there is known, or that nothing is."""
        self.is_known = True


class Inside:
    """One node, for as long as the process runs. Used by one event loop; `changed` wakes who keeps containers right."""

    def __init__(self, settings: Settings, node: KnownNode) -> None:
        """Take what the settings say, and what is known of the node anyway."""
        self.node = node
        self.board = Board()
        self.findings = Findings()
        self.changed = asyncio.Event()
        self.begun: list[ContainerSeen] = []
        """Containers to be looked at once what the node has is known: those that were there when the runtime reported
        its state, and those that were created before."""
        self.inventory = InventoryView(node.key)
        self.checkpoint: Checkpoint = NO_CHECKPOINT
        self.holders: tuple[HeldByContainer, ...] = ()
        """What kubelet's PodResources say of containers, where they are asked."""
        self.held: tuple[HeldCpus, ...] = ()
        """CPUs that kubelet's PodResources say of pods, where they are asked."""
        self.gives_cpus = False
        """Whether they say that kubelet gives out CPUs itself."""
        self.exclusive: frozenset[int] = frozenset()
        """CPUs that are kept from best-effort pods; other threads read it."""
        self._settings = settings
        self._laid_out: tuple[Sequence[Processor], CpuLayout] = ((), NO_LAYOUT)
        self._pools: tuple[int, InsideFacts, SharedPools, frozenset[int]] | None = None

    @property
    def facts(self) -> InsideFacts:
        """What is known now."""
        settings, processors = self._settings, self.node.processors
        if self._laid_out[0] is not processors:
            self._laid_out = (processors, layout_of(processors))
        return InsideFacts(
            layout=self._laid_out[1],
            node=self.node.view.facts,
            checkpoint=self.checkpoint,
            held=self.held,
            gives_cpus=self.gives_cpus,
            inventory=self.inventory.latest,
            library=settings.vgpu_library,
            monitors=settings.vgpu_monitor,
            gives_back=settings.give_back,
            batch_quota=quota_is_per_pod(self.node.strategies.spec),
            cache_groups=self.node.cache_groups,
            spec=self.node.strategies.spec,
        )

    def may_lower_oom_scores(self, uid: str) -> bool | None:
        """Whether a pod's namespace may have others die before it; None while nobody has said it."""
        told = self.node.told().get(uid)
        return None if told is None else told.low_oom_scores

    def pools(self, facts: InsideFacts) -> SharedPools:
        """The shared CPUs; worked out anew only when something has changed."""
        return self._worked_out(facts)[0]

    def keep_exclusive(self, facts: InsideFacts) -> None:
        """Have `exclusive` follow what is known now."""
        self.exclusive = self._worked_out(facts)[1]

    def _worked_out(self, facts: InsideFacts) -> tuple[SharedPools, frozenset[int]]:
        if self._pools is None or self._pools[0] != self.board.version or self._pools[1] != facts:
            self._pools = (self.board.version, facts, self.board.pools(facts), self.board.exclusive(facts))
        return self._pools[2:]

    def hold(self, containers: Iterable[HeldByContainer], gives_cpus: bool) -> None:
        """Take what kubelet's PodResources say, and whether kubelet gives out CPUs."""
        self.holders = tuple(containers)
        now = cpus_held(self.holders), gives_cpus
        if now != (self.held, self.gives_cpus):
            self.held, self.gives_cpus = now
            self.changed.set()

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong inside the node."""
        own = () if self.inventory.problem is None else (self.inventory.problem,)
        return own + self.findings.problems()
