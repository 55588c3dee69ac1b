"""Which pods have a place, by namespace, from the claims that the view reports; what they are is read when it is asked.

Of each it is remembered only whether it has anti-affinity, which a placed pod cannot change, so that a plan need not
look at every pod of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from berth.contracts.state import Node, Pod
from berth.placement_solver.core.verify.view import View
from berth.rules.pod_terms import Peer, PodTerms, compile_pod_terms
from berth.transaction.claims import Claim, Name


class PodOn(NamedTuple):
    """A pod and the node that it is on."""

    peer: Peer
    node: Node


class PlacedPods:
    """Kept from claims; Reservations are no pods."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[tuple[Name, str], str]] = {}
        self._unread: set[tuple[Name, str]] = set()
        self._guarded: dict[tuple[Name, str], PodTerms] = {}

    def count(self, claim: Claim, *, added: bool) -> None:
        """A claim comes or goes."""
        if claim.is_reservation:
            return
        key = (claim.name, claim.uid)
        there = self._nodes.setdefault(claim.name[0], {})
        if added:
            there[key] = claim.node
            if key not in self._guarded:
                self._unread.add(key)
            return
        there.pop(key, None)
        if not there:
            del self._nodes[claim.name[0]]
        self._unread.discard(key)
        self._guarded.pop(key, None)

    def within(self, namespaces: Iterable[str] | None, view: View) -> Iterator[PodOn]:
        """The pods of these namespaces, None: of all, that are on nodes which are there."""
        for namespace in list(self._nodes) if namespaces is None else namespaces:
            for (name, uid), where in self._nodes.get(namespace, {}).items():
                pod, node = pod_of(name, uid, view), node_of(where, view)
                if pod is not None and node is not None:
                    yield PodOn(peer_of(pod), node)

    def guarded(self, view: View) -> Iterator[tuple[PodTerms, Node]]:
        """The terms of all pods that have required anti-affinity, with their nodes."""
        for key in sorted(self._unread):
            pod = pod_of(*key, view)
            if pod is not None:
                self._unread.discard(key)
                terms = compile_pod_terms(pod.template.affinity, pod.namespace, pod.template.labels)
                if terms.anti_affinity:
                    self._guarded[key] = terms
        for key, terms in self._guarded.items():
            node = node_of(self._nodes[key[0][0]][key], view)
            if node is not None:
                yield terms, node


def pod_of(name: Name, uid: str, view: View) -> Pod | None:
    """The pod of this name, if it is the one with this uid."""
    seen = view.book.seen(name)
    return seen if isinstance(seen, Pod) and seen.uid == uid else None


def node_of(name: str, view: View) -> Node | None:
    """The node of this name."""
    row = view.nodes.rows.get(name)
    return None if row is None else view.nodes.states[row]


def peer_of(pod: Pod) -> Peer:
    """The pod as the terms of others see it."""
    return Peer(pod.namespace, pod.template.labels, pod.deleting)
