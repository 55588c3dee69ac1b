"""Which changes of pods and nodes make a pod worth another try that spread or affinity has ruled out.

Each hint takes the pod that waits, what happened to a message of STATE (`old` is None for what is new, `new` for what
is gone), and the labels of a namespace by its name. They are kube-scheduler's: a pod that another pod's anti-affinity
keeps away is not among those that the end of that pod wakes. Constraints of the configuration are not known here: a pod
without its own is worth a try after everything that may concern them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from berth.contracts.state import Node, Pod, PodTemplate
from berth.rules.pod_terms import Peer, PodTerm, PodTerms, compile_pod_terms
from berth.rules.selectors import Labels
from berth.rules.topology_spread import SpreadConstraint, compile_spread


class Waiter(Protocol):
    """Who waits for a node."""

    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def template(self) -> PodTemplate: ...


class Change(Protocol):
    """What became of an object."""

    @property
    def old(self) -> Any: ...
    @property
    def new(self) -> Any: ...


NamespaceLabels: TypeAlias = Callable[[str], Labels]


def spread_after_pod(pod: Waiter, change: Change, namespace_labels: NamespaceLabels) -> bool:
    """PodTopologySpread: a pod that counts came or went, or began or ceased to count; or the pod's own tolerations
    changed, where taints decide which nodes count."""
    old: Pod | None = change.old
    new: Pod | None = change.new
    if any(each is not None and each.namespace != pod.namespace for each in (old, new)):
        return False
    if not pod.template.topology_spread:
        return True
    hard = _hard(pod)
    if old is None or new is None:
        there = old or new
        return there is not None and any(each.selects(there.template.labels) for each in hard)
    if new.uid == pod.uid and new.template.tolerations != old.template.tolerations:
        return any(each.honours_taints for each in hard)
    return any(each.selects(old.template.labels) != each.selects(new.template.labels) for each in hard)


def spread_after_node(pod: Waiter, change: Change, namespace_labels: NamespaceLabels) -> bool:
    """PodTopologySpread: a node with all keys came or went, or one gained or lost a key, changed domains or taints."""
    old: Node | None = change.old
    new: Node | None = change.new
    if not pod.template.topology_spread:
        return True
    hard = _hard(pod)
    counted = [each is not None and all(c.key in each.labels for c in hard) for each in (old, new)]
    if old is None or new is None:
        return any(counted)
    if counted[0] != counted[1]:
        return True
    moved = any(old.labels.get(each.key) != new.labels.get(each.key) for each in hard)
    return counted[1] and (moved or old.taints != new.taints)


def affinity_after_pod(pod: Waiter, change: Change, namespace_labels: NamespaceLabels) -> bool:
    """InterPodAffinity: a placed pod that matches all terms of affinity came, one that matches all terms of
    anti-affinity went; or a change of labels comes to that."""
    old: Pod | None = change.old
    new: Pod | None = change.new
    if any(each is not None and not each.node for each in (old, new)):
        return False
    terms = _terms(pod)
    company = [_matches_all(terms.affinity, each, namespace_labels) for each in (old, new)]
    trouble = [_matches_all(terms.anti_affinity, each, namespace_labels) for each in (old, new)]
    return (company[1] and not company[0]) or (trouble[0] and not trouble[1])


def affinity_after_node(pod: Waiter, change: Change, namespace_labels: NamespaceLabels) -> bool:
    """InterPodAffinity: a node has a key of affinity now, lacks one of anti-affinity, or is in another domain; or it is
    new, and the pod has anti-affinity."""
    old: Mapping[str, str] | None = None if change.old is None else change.old.labels
    new: Mapping[str, str] = {} if change.new is None else change.new.labels
    terms = _terms(pod)
    if old is None:
        return bool(terms.anti_affinity) or any(term.key in new for term in terms.affinity)
    gained = any(term.key in new and new[term.key] != old.get(term.key) for term in terms.affinity)
    return gained or any(term.key in old and new.get(term.key) != old[term.key] for term in terms.anti_affinity)


def reads(pod: Waiter) -> object:
    """What of a waiting pod these hints look at, but for changes of the pod itself."""
    template = pod.template
    return (pod.namespace, template.labels, template.affinity, template.topology_spread)


def _hard(pod: Waiter) -> Sequence[SpreadConstraint]:
    return compile_spread(pod.template.topology_spread, pod.template.labels).hard


def _terms(pod: Waiter) -> PodTerms:
    return compile_pod_terms(pod.template.affinity, pod.namespace, pod.template.labels)


def _matches_all(terms: Sequence[PodTerm], pod: Pod | None, namespace_labels: NamespaceLabels) -> bool:
    """The pod matches every term, of which there is at least one."""
    if pod is None or not terms:
        return False
    peer, labels = Peer(pod.namespace, pod.template.labels), namespace_labels(pod.namespace)
    return all(term.matches(peer, labels) for term in terms)
