"""What the bus shows of this node: its entries in STATE and in SLO.

Both keep what is known while a bucket is read anew, so that a bus that is away changes nothing on the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.base import Problem
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.metrics import RuntimePlugin, Usage
from berth.contracts.node_pressure import EvictionAsk
from berth.contracts.node_report import NodeReport
from berth.contracts.slo import NodePod, NodeSLO
from berth.contracts.subjects import named_key
from berth.node_qos_enforcer.core.inside.running import PodNow
from berth.node_qos_enforcer.core.node_facts import UNKNOWN, NodeFacts, facts_of
from berth.node_qos_enforcer.core.proc import UNKNOWN_CPU
from berth.node_qos_enforcer.core.strategies.node_slo import THRESHOLD, effective
from berth.node_qos_enforcer.core.strategies.seam import Spec
from berth.node_qos_enforcer.core.strategy import DEFAULT, Strategy, strategy_of
from berth.node_qos_enforcer.core.topology import Processor


def node_key(node: str) -> str:
    """Give the key of a node, the same in STATE, SLO and METRICS."""
    return named_key("node", node)


@dataclass
class NodeView:
    """What STATE says of one node; a sink that sees this key alone."""

    key: str
    facts: NodeFacts = UNKNOWN
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    _is_shown: bool = False

    def reset(self) -> None:
        """Keep what is known while the bucket is read anew: best-effort pods stay off CPUs that are reserved."""
        self._is_shown = False

    def apply(self, entry: Entry) -> None:
        """Take the newest state of the node. One that cannot be read leaves the facts unknown, and says so."""
        if entry.key != self.key:
            return
        self._is_shown = not entry.deleted
        if entry.deleted:
            self.facts = UNKNOWN
            return
        try:
            node = decode(entry.value, state.Node)
            self.facts = facts_of(node)
            self.capacity, self.allocatable, self.annotations = node.capacity, node.allocatable, node.annotations
        except InvalidMessage as error:
            self.facts = NodeFacts(problems=(Problem(field=f"state.{self.key}", message=str(error)[:200]),))

    def end(self, sequence: int) -> None:
        """The bucket does not hold the node: until it does the machine's own CPUs are its capacity."""
        if not self._is_shown:
            self.facts = UNKNOWN


@dataclass
class StrategyView:
    """The strategy of one node: None until one is read. A sink of SLO that sees this key alone.

    A bus that is away, a bucket that is read anew or was lost, a message that cannot be used: the last strategy stays.
    Only a deletion takes it away, and then the protocol's default holds: switched off.
    """

    key: str
    strategy: Strategy | None = None
    spec: Spec = field(default_factory=dict)
    source: str = "none"
    message: NodeSLO | None = None
    problems: tuple[Problem, ...] = ()

    def restore(self, message: NodeSLO) -> None:
        """Take the strategy of a former life. Raises InvalidMessage."""
        self.strategy, self.source, self.message = strategy_of(message.cpu_suppress), "file", message
        self.spec = spec_of(message)

    def reset(self) -> None:
        """Keep what is known: the bucket is read anew."""

    def apply(self, entry: Entry) -> None:
        """Take the newest strategy of the node."""
        if entry.key != self.key:
            return
        if entry.deleted:
            self.strategy, self.source, self.message, self.problems = DEFAULT, "withdrawn", None, ()
            self.spec = effective({})
            return
        try:
            message = decode(entry.value, NodeSLO)
            self.strategy = strategy_of(message.cpu_suppress)
            self.spec = spec_of(message)
            self.source, self.message, self.problems = "bus", message, ()
        except InvalidMessage as error:
            self.problems = (Problem(field=f"slo.{self.key}", message=str(error)[:200]),)

    def end(self, sequence: int) -> None:
        """Nothing waits for this view: what was known before counts until there is something newer."""


def spec_of(message: NodeSLO) -> Spec:
    """The whole specification; what a message says typed counts for it."""
    rule = message.cpu_suppress
    threshold = message.spec.get(THRESHOLD)
    typed = {
        "enable": rule.enabled,
        "cpuSuppressThresholdPercent": rule.threshold_percent,
        "cpuSuppressMinPercent": rule.min_percent,
        "cpuSuppressPolicy": rule.policy,
    }
    return effective({**message.spec, THRESHOLD: {**(threshold if isinstance(threshold, dict) else {}), **typed}})


@dataclass
class ReportView:
    """What the last process of this node reported. A sink of METRICS that sees this key alone."""

    key: str
    report: NodeReport | None = None

    def reset(self) -> None:
        """The bucket begins anew."""
        self.report = None

    def apply(self, entry: Entry) -> None:
        """Take a report; one that cannot be read counts as none."""
        if entry.key != self.key:
            return
        try:
            self.report = None if entry.deleted else decode(entry.value, NodeReport)
        except InvalidMessage:
            self.report = None

    def end(self, sequence: int) -> None:
        """Nothing to do at the end."""


class KnownNode:
    """What is known of the node beside what a look shows.

    `refused` is what could not be written when enforcing, `standing` how each strategy stands, in words. `pods_now` and
    `told` give pods as the runtime and as SLO has them, by uid. `cache_groups` are the resctrl groups that are there
    while they are held. `more` are asked for further problems of the node, `plugin` for how it stands with the
    container runtime, `exclusive` for CPUs of pods that share them with nobody.
    """

    def __init__(self, node: str) -> None:
        """Begin with nothing."""
        self.node = node
        self.key = node_key(node)
        self.view = NodeView(self.key)
        self.strategies = StrategyView(self.key)
        self.processors: Sequence[Processor] = ()
        self.refused: tuple[Problem, ...] = ()
        self.more: list[Callable[[], tuple[Problem, ...]]] = []
        self.plugin: Callable[[], RuntimePlugin | None] = lambda: None
        self.exclusive: Callable[[], frozenset[int]] = frozenset
        self.standing: Mapping[str, str] = {}
        self.cpu = UNKNOWN_CPU
        self.cache_groups: frozenset[str] = frozenset()
        self.pods_now: Callable[[], Mapping[str, PodNow]] = dict
        self.told: Callable[[], Mapping[str, NodePod]] = dict
        self.asks: list[EvictionAsk] = []
        self.prod_reclaimable: Usage | None = None

    @property
    def facts(self) -> NodeFacts:
        """What the cluster says of the node; CPUs that best-effort pods may not have count as those of the system."""
        facts, exclusive = self.view.facts, self.exclusive()
        return facts._replace(system_cpus=facts.system_cpus | exclusive) if exclusive else facts

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong beside what a look shows."""
        return (*self.strategies.problems, *self.refused, *(problem for ask in self.more for problem in ask()))
