"""Hints of the constraints that look at other pods: the rules are in `peer_hints`, here is what they listen to."""

from __future__ import annotations

from typing import Final

from berth.rules import peer_hints
from berth.rules.pod_terms import Peer, compile_pod_terms
from berth.rules.queueing.events import NODE, POD, Action, Event
from berth.rules.queueing.hint import Hints, NamespaceLabels, Reader, Waiter


def no_longer_refused(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """A pod is gone that kept the waiting one away."""
    gone, labels = event.old, namespace_labels(pod.namespace)
    terms = compile_pod_terms(gone.template.affinity, gone.namespace, gone.template.labels).anti_affinity
    return any(term.matches(Peer(pod.namespace, pod.template.labels), labels) for term in terms)


HINTS: Final[dict[str, Hints]] = {
    "PodTopologySpread": {
        **{
            (POD, action): peer_hints.spread_after_pod
            for action in (Action.ADD, Action.DELETE, Action.POD_LABEL, Action.POD_TOLERATION)
        },
        **{
            (NODE, action): peer_hints.spread_after_node
            for action in (Action.ADD, Action.DELETE, Action.NODE_LABEL, Action.NODE_TAINT)
        },
    },
    "InterPodAffinity": {
        **{(POD, action): peer_hints.affinity_after_pod for action in (Action.ADD, Action.DELETE, Action.POD_LABEL)},
        **{(NODE, action): peer_hints.affinity_after_node for action in (Action.ADD, Action.NODE_LABEL)},
    },
}
"""By the name of the constraint."""
READS: Final[dict[str, Reader]] = dict.fromkeys(HINTS, peer_hints.reads)
MORE: Final[dict[str, Hints]] = {"InterPodAffinity": {(POD, Action.DELETE): no_longer_refused}}
"""What kube-scheduler's hints leave to the flush after minutes."""
