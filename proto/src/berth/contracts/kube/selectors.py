"""How objects choose each other: label selectors, node affinity, taints and what tolerates them.

Only their shape is here; what they match is decided in `berth.rules`.
"""

from __future__ import annotations

from typing import Any

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


class Affinity(View, frozen=True, kw_only=True):
    """spec.affinity; pod (anti-)affinity is kept as read, since nothing evaluates it yet."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


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
