"""What kube-scheduler's scores among pods are, worked out from scratch over the nodes and pods of a cluster."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.rules.inter_pod_affinity import HARD_WEIGHT
from berth.rules.pod_terms import NO_LABELS, NodeLabels, Peer, Placed, PodTerm, PodTerms
from berth.rules.selectors import Labels
from berth.rules.topology_spread import HOSTNAME, Incoming, Spread, SpreadConstraint

_MAX_SCORE: Final = 100
Pair = tuple[str, str]
"""A label of nodes and a value of it: a domain."""


class SpreadScores(NamedTuple):
    """The rating of each feasible node, less being better; those `ignored` have none."""

    raw: dict[str, int]
    ignored: frozenset[str]


def spread_scores(
    spread: Spread,
    incoming: Incoming,
    nodes: Mapping[str, NodeLabels],
    pods: Iterable[Placed],
    feasible: Sequence[str],
) -> SpreadScores | None:
    """The ratings by the soft constraints; None: there are none. `nodes` are all of the cluster, by name."""
    soft = spread.soft
    if not soft:
        return None
    on_node: dict[str, list[Peer]] = {}
    for pod in pods:
        on_node.setdefault(pod.node, []).append(pod.peer)
    rated = [name for name in feasible if not spread.requires_all_keys or _has_all(nodes[name], soft)]
    sums = dict.fromkeys(feasible, 0.0)
    for each in soft:
        count_at = _counter(each, spread, incoming, nodes, on_node, rated)
        # A node without the key is in the domain of the empty value, as far as domains are counted.
        domains = len(rated) if each.key == HOSTNAME else len({nodes[name].labels.get(each.key, "") for name in rated})
        weight = math.log(domains + 2)
        for name in rated:
            if each.key in nodes[name].labels:
                sums[name] += count_at(name) * weight + (each.max_skew - 1)
    return SpreadScores({name: _round_half_up(each) for name, each in sums.items()}, frozenset(feasible) - set(rated))


def normalise_spread(scores: SpreadScores) -> dict[str, int]:
    """The ratings as scores of 0 to 100, more being better."""
    rated = [amount for name, amount in scores.raw.items() if name not in scores.ignored]
    least, most = min(rated, default=0), max(rated, default=0)
    return {
        name: 0 if name in scores.ignored else (_MAX_SCORE * (most + least - amount) // most if most else _MAX_SCORE)
        for name, amount in scores.raw.items()
    }


def _round_half_up(amount: float) -> int:
    """The nearest integer of an amount that is not negative, a half away from zero."""
    below = math.floor(amount)
    return below + (amount - below >= 0.5)


def _counter(
    constraint: SpreadConstraint,
    spread: Spread,
    incoming: Incoming,
    nodes: Mapping[str, NodeLabels],
    on_node: Mapping[str, Sequence[Peer]],
    rated: Iterable[str],
) -> Callable[[str], int]:
    """How many pods count in the domain of a node."""

    def on(name: str) -> int:
        return sum(constraint.counted(peer, incoming.peer.namespace) for peer in on_node.get(name, ()))

    if constraint.key == HOSTNAME:
        return on
    counts: Counter[str] = Counter()
    domains = {nodes[name].labels.get(constraint.key, "") for name in rated}
    for name, node in nodes.items():
        if spread.requires_all_keys and not _has_all(node, spread.soft):
            continue
        value = node.labels.get(constraint.key, "")
        if value in domains and incoming.counts_node(constraint, node):
            counts[value] += on(name)
    return lambda name: counts[nodes[name].labels[constraint.key]]


def _has_all(node: NodeLabels, constraints: Iterable[SpreadConstraint]) -> bool:
    return all(each.key in node.labels for each in constraints)


def affinity_scores(
    peer: Peer,
    terms: PodTerms,
    namespaces: Mapping[str, Labels],
    nodes: Mapping[str, NodeLabels],
    pods: Iterable[Placed],
    feasible: Iterable[str],
    *,
    hard_weight: int = HARD_WEIGHT,
    ignore_preferred_terms_of_existing_pods: bool = False,
) -> dict[str, int] | None:
    """The sum of the weights of all terms that hold, for each feasible node; it may be negative.

    None: nothing was counted. `nodes` are all of the cluster, by name; pods on others do not count.
    """
    if ignore_preferred_terms_of_existing_pods and not terms.preferred:
        return None
    sums: Counter[Pair] = Counter()
    own_labels = namespaces.get(peer.namespace, NO_LABELS)
    for pod in pods:
        node = nodes.get(pod.node)
        if node is None:
            continue
        labels = namespaces.get(pod.peer.namespace, NO_LABELS)
        for weight, term in terms.preferred:
            if term.matches(pod.peer, labels):
                _count(sums, term, node, weight)
        for weight, term in pod.terms.preferred:
            if term.matches(peer, own_labels):
                _count(sums, term, node, weight)
        if hard_weight > 0:
            for term in pod.terms.affinity:
                if term.matches(peer, own_labels):
                    _count(sums, term, node, hard_weight)
    if not sums:
        return None
    return {name: sum(sums[pair] for pair in nodes[name].labels.items() if pair in sums) for name in feasible}


def normalise_affinity(raw: Mapping[str, int]) -> dict[str, int]:
    """The sums as scores of 0 to 100: the least becomes 0, the greatest 100; all equal: 0."""
    least, most = min(raw.values(), default=0), max(raw.values(), default=0)
    # As the reference rounds: the quotient first.
    return {
        name: int(_MAX_SCORE * ((amount - least) / (most - least))) if most > least else 0
        for name, amount in raw.items()
    }


def _count(sums: Counter[Pair], term: PodTerm, node: NodeLabels, amount: int) -> None:
    value = node.labels.get(term.key)
    if value is not None:
        sums[term.key, value] += amount
