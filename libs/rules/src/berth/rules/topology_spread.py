"""Pods spread over domains of nodes: Kubernetes' PodTopologySpread.

Constraints are compiled once per pod. The definition of the filter is here as well, worked out from scratch over the
nodes and pods of a cluster. It is what to check with; placing thousands of pods works on running sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.kube import LabelSelector, TopologySpreadConstraint
from berth.contracts.state import PodTemplate
from berth.rules.node_affinity import NodeRule, compile_node_rule
from berth.rules.pod_terms import NodeLabels, Peer, Unfit, merge_label_keys
from berth.rules.selectors import Labels, LabelTest, compile_selector, is_label_key
from berth.rules.taints import Tolerations

REASON: Final = "node(s) didn't match pod topology spread constraints"
MISSING_REASON: Final = f"{REASON} (missing required label)"

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"

SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SOFT, max_skew=5),
)
"""What counts for pods without constraints of their own, unless configured."""

CONSTRAINTS_MAX: Final = 64
COUNT_MAX: Final = (1 << 31) - 1
"""The smallest count of no domain at all."""

_FIELD: Final = "spec.topologySpreadConstraints"
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class SpreadConstraint(NamedTuple):
    """One constraint. `counts`: pods that pass `selects` count; an empty selector is passed, but counts nobody.

    `identity` is equal for constraints that count the same pods of a namespace.
    """

    key: str
    max_skew: int
    min_domains: int
    selects: LabelTest
    counts: bool
    honours_affinity: bool = True
    honours_taints: bool = False
    identity: bytes = b""

    def counted(self, peer: Peer, namespace: str) -> bool:
        """Whether the pod counts for a pod of this namespace."""
        return self.counts and peer.namespace == namespace and not peer.deleting and self.selects(peer.labels)


class Spread(NamedTuple):
    """All constraints of a pod: `hard` ones rule nodes out, `soft` ones rate them.

    `requires_all_keys`: a node that lacks a key of a soft constraint is neither counted nor rated.
    """

    hard: tuple[SpreadConstraint, ...] = ()
    soft: tuple[SpreadConstraint, ...] = ()
    requires_all_keys: bool = True
    problems: tuple[Problem, ...] = ()


class Defaults(NamedTuple):
    """Constraints of the configuration, for pods without any; `are_systems`: those that hold where none is given."""

    constraints: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
    are_systems: bool = True


class Incoming(NamedTuple):
    """The pod that is to be placed, with what decides which nodes it counts."""

    peer: Peer
    rule: NodeRule
    tolerations: Tolerations

    def counts_node(self, constraint: SpreadConstraint, node: NodeLabels) -> bool:
        """The inclusion policies: may the node's pods and its domain count?"""
        if constraint.honours_affinity and not (self.rule.unrestricted or self.rule.matches(node.labels, node.name)):
            return False
        return not constraint.honours_taints or self.tolerations.first_untolerated(node.taints) is None


def incoming_of(template: PodTemplate, namespace: str) -> Incoming:
    """The pod of a template."""
    return Incoming(
        Peer(namespace, template.labels),
        compile_node_rule(template.node_selector, template.affinity),
        Tolerations(template.tolerations),
    )


def compile_spread(constraints: Sequence[TopologySpreadConstraint], labels: Labels) -> Spread:
    """The constraints that a pod with these labels names itself."""
    problems: list[Problem] = []
    if len(constraints) > CONSTRAINTS_MAX:
        problems.append(Problem(field=_FIELD, message=f"has more than {CONSTRAINTS_MAX} constraints"))
        constraints = ()
    by_action: dict[str, list[SpreadConstraint]] = {HARD: [], SOFT: []}
    for position, each in enumerate(constraints):
        field = f"{_FIELD}[{position}]"
        problems += problems_of(each, field)
        by_action.get(each.when_unsatisfiable, []).append(_compile(each, labels, field, problems))
    return Spread(tuple(by_action[HARD]), tuple(by_action[SOFT]), problems=tuple(problems))


def default_spread(defaults: Defaults, selector: LabelSelector | None) -> Spread:
    """The constraints of the configuration with the selector of the pod's fellows, which an empty one switches off
    (`berth.rules.pod_selectors`)."""
    if selector is None or is_empty(selector):
        return Spread()
    problems: list[Problem] = []
    made = [
        (each.when_unsatisfiable, _compile(_with_selector(each, selector), {}, _FIELD, problems))
        for each in defaults.constraints
    ]
    if problems:
        return Spread()
    return Spread(
        tuple(each for action, each in made if action == HARD),
        tuple(each for action, each in made if action == SOFT),
        requires_all_keys=not defaults.are_systems,
    )


def is_empty(selector: LabelSelector) -> bool:
    """It has no expression at all."""
    return not selector.match_labels and not selector.match_expressions


class SpreadCounts:
    """The domains of a cluster as the hard constraints of one pod count them, and so which nodes refuse it."""

    def __init__(
        self, constraints: Sequence[SpreadConstraint], incoming: Incoming, nodes: Iterable[NodeLabels]
    ) -> None:
        self._constraints = constraints
        self._incoming = incoming
        self._counts: list[Counter[str]] = [Counter() for _ in constraints]
        for node in nodes:
            for _, counts, value in self._counted_at(node):
                counts[value] += 0

    def add(self, peer: Peer, node: NodeLabels, amount: int = 1) -> None:
        """Count a pod that is on the node; with amount -1 it is taken away again."""
        for constraint, counts, value in self._counted_at(node):
            if constraint.counted(peer, self._incoming.peer.namespace):
                counts[value] += amount

    def unfit(self, node: NodeLabels) -> Unfit | None:
        """Why the node does not take the pod; None: it does, by these rules."""
        for constraint, counts in zip(self._constraints, self._counts, strict=True):
            value = node.labels.get(constraint.key)
            if value is None:
                return Unfit(MISSING_REASON, resolvable=False)
            least = min(counts.values(), default=COUNT_MAX) if len(counts) >= constraint.min_domains else 0
            itself = int(constraint.selects(self._incoming.peer.labels))
            if counts.get(value, 0) + itself - least > constraint.max_skew:
                return Unfit(REASON)
        return None

    def _counted_at(self, node: NodeLabels) -> list[tuple[SpreadConstraint, Counter[str], str]]:
        """The constraints that count the node, with their counts and the domain it is in."""
        if not _has_all(node, self._constraints):
            return []
        return [
            (each, counts, node.labels[each.key])
            for each, counts in zip(self._constraints, self._counts, strict=True)
            if self._incoming.counts_node(each, node)
        ]


def _has_all(node: NodeLabels, constraints: Iterable[SpreadConstraint]) -> bool:
    return all(each.key in node.labels for each in constraints)


def _compile(
    constraint: TopologySpreadConstraint, labels: Labels, field: str, problems: list[Problem]
) -> SpreadConstraint:
    keys = constraint.match_label_keys or ()
    selector = constraint.label_selector
    if selector is None and any(key in labels for key in keys):
        selector = LabelSelector()  # the API server refuses it; kube-scheduler goes by the keys alone
    selector = merge_label_keys(selector, labels, keys)
    found = compile_selector(selector, f"{field}.labelSelector")
    problems += found.problems
    return SpreadConstraint(
        key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        selects=found.matches,
        counts=selector is not None and not is_empty(selector),
        honours_affinity=constraint.node_affinity_policy != "Ignore",
        honours_taints=constraint.node_taints_policy == "Honor",
        identity=_encode(selector),
    )


def _with_selector(constraint: TopologySpreadConstraint, selector: LabelSelector) -> TopologySpreadConstraint:
    return msgspec.structs.replace(constraint, label_selector=selector, match_label_keys=None)


def problems_of(constraint: TopologySpreadConstraint, field: str) -> Iterable[Problem]:
    """What is wrong with a constraint that stands in `field`, its selector aside."""
    if not is_label_key(constraint.topology_key):
        yield Problem(field=f"{field}.topologyKey", message=f"{constraint.topology_key[:64]!r} is no label key")
    if constraint.when_unsatisfiable not in (HARD, SOFT):
        text = f"{constraint.when_unsatisfiable[:64]!r} is none of {HARD}, {SOFT}"
        yield Problem(field=f"{field}.whenUnsatisfiable", message=text)
    for name, number in (("maxSkew", constraint.max_skew), ("minDomains", constraint.min_domains)):
        if number is not None and not 1 <= number <= COUNT_MAX:
            yield Problem(field=f"{field}.{name}", message=f"must lie between 1 and {COUNT_MAX}")
    for name, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy not in ("", "Honor", "Ignore"):
            yield Problem(field=f"{field}.{name}", message=f"{policy[:64]!r} is none of Honor, Ignore")
