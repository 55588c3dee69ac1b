"""InterPodAffinity: no pod of a plan is where it must not be, or is not wanted, and each has the company that it needs,
beside what is there and what the plan placed before it.

Domains are counted term by term, so that pods which differ in labels alone are not counted for one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from berth.contracts.state import Node, Pod, Reservation
from berth.placement_solver.core.verify.laws.placed_pods import PlacedPods, node_of, pod_of
from berth.placement_solver.core.verify.view import View
from berth.rules.inter_pod_affinity import (
    AFFINITY_REASON,
    ANTI_AFFINITY_REASON,
    EXISTING_ANTI_AFFINITY_REASON,
)
from berth.rules.pod_terms import NO_LABELS, NO_TERMS, Peer, PodTerm, PodTerms, compile_pod_terms, merged_affinity
from berth.rules.selectors import Labels
from berth.transaction.claims import Claim

PLUGIN: Final = "InterPodAffinity"
Domain: TypeAlias = tuple[str, str]
"""A label of nodes, and a value of it."""


def affinity_problems(claims: Sequence[Claim], view: View, placed: PlacedPods) -> Iterator[str]:
    """What speaks against a plan that makes these claims, in this order."""
    world, has_terms = _World(view, placed), False
    if not world.is_guarded and not any(_has_affinity(claim, view) for claim in claims):
        return
    arriving = []
    for claim in claims:
        seen, node = view.book.seen(claim.name), node_of(claim.node, view)
        if seen is not None and node is not None:
            terms = _terms_of(seen)
            for term in terms.anti_affinity:
                world.watch((term,))
            if terms.affinity:
                world.watch(terms.affinity)
            has_terms = has_terms or terms is not NO_TERMS
            arriving.append((claim, Peer(seen.namespace, seen.template.labels), terms, node))
    if not has_terms and not world.is_guarded:
        return
    for claim, peer, terms, node in arriving:
        seen = view.book.seen(claim.name)
        if seen is not None and PLUGIN in view.profile_of(seen.template.scheduler).constraints:
            for reason in world.against(peer, terms, node):
                yield f"{'/'.join(claim.name)}: node {node.name}: {reason}"
        if pod_of(claim.name, claim.uid, view) is not None:
            world.place(peer, terms, node)


def _has_affinity(claim: Claim, view: View) -> bool:
    seen = view.book.seen(claim.name)
    return seen is not None and seen.template.affinity is not None


class _World:
    """Who is in which domains: for each set of terms those who match all of them, for each guard who owns it."""

    def __init__(self, view: View, placed: PlacedPods) -> None:
        self._view = view
        self._placed = placed
        self._watched: dict[object, tuple[tuple[PodTerm, ...], Counter[Domain]]] = {}
        self._guards: dict[tuple[str, bytes], tuple[PodTerm, Counter[Domain]]] = {}
        for terms, node in placed.guarded(view):
            self._guard(terms, node)

    @property
    def is_guarded(self) -> bool:
        """Whether anybody there keeps others away."""
        return bool(self._guards)

    def watch(self, terms: tuple[PodTerm, ...]) -> None:
        """Count from now on who matches all of the terms, in the domains that they name."""
        key = _key(terms)
        if key in self._watched:
            return
        keys = {term.key for term in terms}
        found: Counter[Domain] = Counter()
        self._watched[key] = (terms, found)
        anywhere = all(term.selects_namespace is not None for term in terms)
        named = [term.namespaces for term in terms if term.selects_namespace is None]
        for pod in self._placed.within(None if anywhere else frozenset.intersection(*named), self._view):
            if self._match(terms, pod.peer):
                found.update(_domains(keys, pod.node))

    def place(self, peer: Peer, terms: PodTerms, node: Node) -> None:
        """One more pod is on the node."""
        for watched, found in self._watched.values():
            if self._match(watched, peer):
                found.update(_domains({term.key for term in watched}, node))
        self._guard(terms, node)

    def against(self, peer: Peer, terms: PodTerms, node: Node) -> Iterator[str]:
        """What speaks against a pod on the node."""
        if terms.affinity and not self._has_company(peer, terms.affinity, node):
            yield AFFINITY_REASON
        for term in terms.anti_affinity:
            if self._is_there((term,), term, node):
                yield ANTI_AFFINITY_REASON
        for term, found in self._guards.values():
            value = node.labels.get(term.key)
            if value is not None and found[term.key, value] and term.matches(peer, self._labels_of(peer)):
                yield EXISTING_ANTI_AFFINITY_REASON

    def _has_company(self, peer: Peer, terms: tuple[PodTerm, ...], node: Node) -> bool:
        if any(term.key not in node.labels for term in terms):
            return False
        if all(self._is_there(terms, term, node) for term in terms):
            return True
        nobody_matches = not self._watched[_key(terms)][1]
        return nobody_matches and self._match(terms, peer)

    def _is_there(self, terms: tuple[PodTerm, ...], term: PodTerm, node: Node) -> bool:
        """Whether somebody who matches all the terms is in the node's domain of this one."""
        value = node.labels.get(term.key)
        return value is not None and self._watched[_key(terms)][1][term.key, value] > 0

    def _guard(self, terms: PodTerms, node: Node) -> None:
        for term in terms.anti_affinity:
            value = node.labels.get(term.key)
            if value is not None:
                _, found = self._guards.setdefault((term.key, term.identity), (term, Counter()))
                found[term.key, value] += 1

    def _match(self, terms: tuple[PodTerm, ...], peer: Peer) -> bool:
        labels = self._labels_of(peer)
        return all(term.matches(peer, labels) for term in terms)

    def _labels_of(self, peer: Peer) -> Labels:
        return self._view.namespaces.get(peer.namespace, NO_LABELS)


def _key(terms: tuple[PodTerm, ...]) -> object:
    return tuple((term.key, term.identity) for term in terms)


def _domains(keys: set[str], node: Node) -> list[Domain]:
    return [(key, node.labels[key]) for key in keys if key in node.labels]


def _terms_of(seen: Pod | Reservation) -> PodTerms:
    template = seen.template
    if template.affinity is None:
        return NO_TERMS
    # No API server has merged the label keys of a Reservation's template.
    affinity = template.affinity if isinstance(seen, Pod) else merged_affinity(template.affinity, template.labels)
    return compile_pod_terms(affinity, seen.namespace, template.labels)
