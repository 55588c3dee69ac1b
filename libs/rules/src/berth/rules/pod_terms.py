"""Which pods a pod means: terms of affinity and anti-affinity between pods, compiled.

A term selects pods by label in some namespaces, and names the label of nodes whose values are the domains that it
speaks of. Terms are compiled once per pod and then asked about many others. A broken term matches nothing and is named
in `problems`: callers refuse the pod with them instead of placing it by half of its terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from berth.contracts.base import Problem
from berth.contracts.kube import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    Taint,
    WeightedPodAffinityTerm,
)
from berth.rules.selectors import Labels, LabelTest, compile_selector, is_label_key

TERMS_MAX: Final = 256
WEIGHT_MAX: Final = 100

NO_LABELS: Final[Labels] = {}

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_AFFINITY: Final = "spec.affinity.podAffinity"
_ANTI_AFFINITY: Final = "spec.affinity.podAntiAffinity"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeLabels(Protocol):
    """What of a node decides in which domains it lies."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def taints(self) -> Sequence[Taint]: ...


class Peer(NamedTuple):
    """A pod as the terms of others see it. `deleting`: it has a deletion timestamp."""

    namespace: str
    labels: Labels = NO_LABELS
    deleting: bool = False


class Unfit(NamedTuple):
    """Why a node does not take a pod; `resolvable`: it may help that other pods leave."""

    reason: str
    resolvable: bool = True


class PodTerm(NamedTuple):
    """One term. `key` is the label of nodes whose values are the domains.

    Pods match that are in one of `namespaces`, or in a namespace whose labels pass `selects_namespace`, and whose
    labels pass `selects`. `identity` is equal for terms that match the same pods; it does not cover `key`.
    """

    key: str
    namespaces: frozenset[str]
    selects: LabelTest
    selects_namespace: LabelTest | None = None
    identity: bytes = b""

    def matches(self, peer: Peer, namespace_labels: Labels) -> bool:
        """Whether the pod is meant; `namespace_labels` are those of its namespace."""
        if peer.namespace not in self.namespaces and (
            self.selects_namespace is None or not self.selects_namespace(namespace_labels)
        ):
            return False
        return self.selects(peer.labels)


class PodTerms(NamedTuple):
    """All terms of one pod. `preferred` has each term with its weight, negative for anti-affinity."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[tuple[int, PodTerm], ...] = ()
    problems: tuple[Problem, ...] = ()

    def match_all(self, peer: Peer, namespace_labels: Labels) -> bool:
        """The pod matches every term of required affinity, of which there is at least one."""
        return bool(self.affinity) and all(term.matches(peer, namespace_labels) for term in self.affinity)


NO_TERMS: Final = PodTerms()


class Placed(NamedTuple):
    """A pod that is on a node, by the node's name, with its own terms."""

    peer: Peer
    node: str
    terms: PodTerms = NO_TERMS


def compile_pod_terms(affinity: Affinity | None, namespace: str, labels: Labels) -> PodTerms:
    """The terms of a pod with these labels in this namespace."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    problems: list[Problem] = []
    owner = Peer(namespace, labels)
    toward, away = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
    required = toward.required_during_scheduling_ignored_during_execution
    forbidden = away.required_during_scheduling_ignored_during_execution
    liked = toward.preferred_during_scheduling_ignored_during_execution
    disliked = away.preferred_during_scheduling_ignored_during_execution
    return PodTerms(
        _compile_all(required or (), owner, f"{_AFFINITY}.{_REQUIRED}", problems),
        _compile_all(forbidden or (), owner, f"{_ANTI_AFFINITY}.{_REQUIRED}", problems),
        (
            *_compile_weighted(liked or (), owner, 1, f"{_AFFINITY}.{_PREFERRED}", problems),
            *_compile_weighted(disliked or (), owner, -1, f"{_ANTI_AFFINITY}.{_PREFERRED}", problems),
        ),
        tuple(problems),
    )


def compile_term(term: PodAffinityTerm, owner: Peer, field: str, problems: list[Problem]) -> PodTerm:
    """One term of `owner`. What is wrong with it is added to `problems`.

    `matchLabelKeys` and `mismatchLabelKeys` do not count: they are in the selector already (`merged_affinity`).
    """
    found = compile_selector(term.label_selector, f"{field}.labelSelector")
    problems += found.problems
    if not is_label_key(term.topology_key):
        problems.append(Problem(field=f"{field}.topologyKey", message=f"{term.topology_key[:64]!r} is no label key"))
    namespaces = frozenset(term.namespaces or ())
    selects_namespace = None
    if term.namespace_selector is not None:
        of_namespaces = compile_selector(term.namespace_selector, f"{field}.namespaceSelector")
        problems += of_namespaces.problems
        selects_namespace = of_namespaces.matches
    elif not namespaces:
        namespaces = frozenset({owner.namespace})
    identity = _encode((sorted(namespaces), term.namespace_selector, term.label_selector))
    return PodTerm(term.topology_key, namespaces, found.matches, selects_namespace, identity)


def merged_affinity(affinity: Affinity | None, labels: Labels) -> Affinity | None:
    """The affinity of a pod that no API server has seen, as the API server would store it: with `matchLabelKeys` and
    `mismatchLabelKeys` in the selectors of its terms. Merging twice changes nothing."""
    if affinity is None:
        return None
    return msgspec.structs.replace(
        affinity,
        pod_affinity=_merged(affinity.pod_affinity, labels),
        pod_anti_affinity=_merged(affinity.pod_anti_affinity, labels),
    )


def merge_label_keys(
    selector: LabelSelector | None, labels: Labels, match: Sequence[str], mismatch: Sequence[str] = ()
) -> LabelSelector | None:
    """The selector with `matchLabelKeys` and `mismatchLabelKeys` in it, as the API server merges them.

    Keys that the pod lacks are left out, and a null selector stays one. Merging twice changes nothing.
    """
    if selector is None or not (match or mismatch):
        return selector
    expressions = list(selector.match_expressions or ())
    for keys, operator in ((match, "In"), (mismatch, "NotIn")):
        for key in keys:
            if key in labels:
                merged = Requirement(key=key, operator=operator, values=[labels[key]])
                if merged not in expressions:
                    expressions.append(merged)
    return LabelSelector(match_labels=selector.match_labels, match_expressions=expressions or None)


def _merged(part: PodAffinity | None, labels: Labels) -> PodAffinity | None:
    if part is None:
        return None

    def merged(term: PodAffinityTerm) -> PodAffinityTerm:
        selector = merge_label_keys(
            term.label_selector, labels, term.match_label_keys or (), term.mismatch_label_keys or ()
        )
        return msgspec.structs.replace(term, label_selector=selector)

    required = part.required_during_scheduling_ignored_during_execution
    preferred = part.preferred_during_scheduling_ignored_during_execution
    return PodAffinity(
        required_during_scheduling_ignored_during_execution=required and [merged(term) for term in required],
        preferred_during_scheduling_ignored_during_execution=preferred
        and [msgspec.structs.replace(each, pod_affinity_term=merged(each.pod_affinity_term)) for each in preferred],
    )


def _compile_all(
    terms: Sequence[PodAffinityTerm], owner: Peer, field: str, problems: list[Problem]
) -> tuple[PodTerm, ...]:
    if len(terms) > TERMS_MAX:
        problems.append(Problem(field=field, message=f"has more than {TERMS_MAX} terms"))
        return ()
    return tuple(compile_term(term, owner, f"{field}[{position}]", problems) for position, term in enumerate(terms))


def _compile_weighted(
    terms: Sequence[WeightedPodAffinityTerm], owner: Peer, sign: int, field: str, problems: list[Problem]
) -> tuple[tuple[int, PodTerm], ...]:
    if len(terms) > TERMS_MAX:
        problems.append(Problem(field=field, message=f"has more than {TERMS_MAX} terms"))
        return ()
    found = []
    for position, each in enumerate(terms):
        path = f"{field}[{position}]"
        if not 0 <= each.weight <= WEIGHT_MAX:
            problems.append(Problem(field=f"{path}.weight", message=f"must lie between 1 and {WEIGHT_MAX}"))
        term = compile_term(each.pod_affinity_term, owner, f"{path}.podAffinityTerm", problems)
        found.append((sign * each.weight, term))
    return tuple(found)
