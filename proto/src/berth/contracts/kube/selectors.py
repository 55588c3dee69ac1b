"""How objects choose each other: label selectors, node affinity, taints and what tolerates them.

Only their shape is here; what they match is decided in `berth.rules`.
"""

from __future__ import annotations

from berth.contracts.base import Integer
from berth.contracts.kube.meta import View


class Requirement(View, frozen=True, kw_only=True):
    """One expression of a label selector or a node selector term."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(View, frozen=True, kw_only=True):
    """A label selector; empty selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class NodeSelectorTerm(View, frozen=True, kw_only=True):
    """Expressions on labels and on fields (`metadata.name`), all of which hold; an empty term matches nothing."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(View, frozen=True, kw_only=True):
    """Terms of which one has to hold."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredTerm(View, frozen=True, kw_only=True):
    """A term that adds its weight to the score of the nodes it matches."""

    weight: Integer = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(View, frozen=True, kw_only=True):
    """spec.affinity.nodeAffinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredTerm] | None = None


class PodAffinityTerm(View, frozen=True, kw_only=True):
    """Pods by label, in namespaces that are listed, selected or (neither) the pod's own, and the domain they lie in.

    A null `label_selector` matches nothing, an empty one everything; an empty `namespace_selector` matches every
    namespace.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(View, frozen=True, kw_only=True):
    """A term that adds its weight, 1 to 100, for each matching pod in the domain."""

    weight: Integer = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(View, frozen=True, kw_only=True):
    """spec.affinity.podAffinity, or podAntiAffinity."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(View, frozen=True, kw_only=True):
    """spec.affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(View, frozen=True, kw_only=True):
    """spec.topologySpreadConstraints[]; an empty policy means Kubernetes' default (affinity: Honor, taints: Ignore)."""

    topology_key: str = ""
    max_skew: Integer = 0
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Integer | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: list[str] | None = None


class Toleration(View, frozen=True, kw_only=True):
    """spec.tolerations[]."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: Integer | None = None


class Taint(View, frozen=True, kw_only=True):
    """spec.taints[] of a node or a Reservation."""

    key: str
    effect: str
    value: str = ""
