"""What is known of the cluster when a request is reviewed. Whoever keeps it puts in what it sees; rules only read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from berth.contracts import state
from berth.resources.amounts import Amounts
from berth.rules.admission.node_selectors import NodeSelectors
from berth.rules.admission.profiles import Profiles
from berth.rules.admission.required_labels import RequiredLabels
from berth.rules.admission.seal import Seal
from berth.rules.quota_admission.quota import KnownQuotas
from berth.rules.quota_of_pod import QuotaMap
from berth.rules.quota_trees import Profile as TreeProfile


def _no_pods(_quota: str) -> int:
    return 0


def _nothing(_quota: str) -> Amounts:
    return {}


def _no_nodes() -> Iterable[tuple[str, Mapping[str, str]]]:
    return ()


@dataclass(slots=True, kw_only=True)
class Views:
    """All of it. A part that nobody fills in means that the cluster has none of it."""

    profiles: Profiles = field(default_factory=Profiles)
    priority_classes: Mapping[str, state.PriorityClass] = field(default_factory=dict)
    """By name."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels by name."""
    seal: Seal = field(default_factory=Seal)
    """What marks of this webhook are told from those of users by."""
    kept_whole: frozenset[str] = frozenset()
    """Resource names beside which no `koordinator.sh/gpu.shared` is added (`berth.vendors`)."""
    quotas: KnownQuotas = field(default_factory=KnownQuotas)
    quota_map: QuotaMap = field(default_factory=QuotaMap)
    """Which quota a pod without a label of its own belongs to."""
    quota_limits: Mapping[str, Amounts] = field(default_factory=dict)
    """The annotation `admission` of quotas that have one, by name."""
    quota_namesakes: frozenset[str] = frozenset()
    """Names that several ElasticQuotas have."""
    booked: Callable[[str], Amounts] = _nothing
    """What the pods of a quota ask for together, by its name."""
    bound_pods: Callable[[str], int] = _no_pods
    """How many pods belong to a quota, by its name."""
    tree_profiles: Iterable[TreeProfile] = ()
    """ElasticQuotaProfiles."""
    nodes: Callable[[], Iterable[tuple[str, Mapping[str, str]]]] = _no_nodes
    """Names and labels of all nodes."""
    node_selectors: NodeSelectors = field(default_factory=NodeSelectors)
    """Of the strategies of nodes that are in force."""
    strategy_names_required: bool = False
    """Whether node strategies have to have names, each its own (`--node-strategy-name-need-check`)."""
    required_labels: RequiredLabels = field(default_factory=RequiredLabels)
