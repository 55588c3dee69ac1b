"""Hints of the constraints that look at one node: its marks, taints, labels, ports and capacity."""

from __future__ import annotations

from typing import Final

from berth.contracts import names
from berth.contracts.state import Node, Pod
from berth.rules.node_affinity import compile_node_rule
from berth.rules.ports import UsedPorts
from berth.rules.queueing.events import NODE, POD, Action, Event
from berth.rules.queueing.hint import Hints, NamespaceLabels, Reader, Waiter, always, held_capacity, is_own
from berth.rules.taints import UNSCHEDULABLE_TAINT, Tolerations


def opened(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """A node is no longer cordoned, or a new one is not."""
    old, new = event.old, event.new
    return not new.unschedulable and (old is None or old.unschedulable)


def gained_cordon_toleration(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """The pod tolerates cordoned nodes now."""
    return is_own(pod, event) and Tolerations(event.new.template.tolerations).tolerate(UNSCHEDULABLE_TAINT)


def lost_taint(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """The pod tolerates the node's taints now and did not before."""
    tolerations = Tolerations(pod.template.tolerations)
    old: Node | None = event.old
    was_kept_off = old is None or tolerations.first_untolerated(old.taints) is not None
    return was_kept_off and tolerations.first_untolerated(event.new.taints) is None


def own_change(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """It is the pod itself that changed."""
    return is_own(pod, event)


def began_to_match(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """The node matches the pod's selector and affinity now and did not before."""
    rule = compile_node_rule(pod.template.node_selector, pod.template.affinity)
    old: Node | None = event.old
    if not rule.matches(event.new.labels, event.new.name):
        return False
    return old is None or not rule.matches(old.labels, old.name)


def freed_ports(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """A pod is gone that had a place and one of the pod's host ports."""
    gone: Pod = event.old
    taken = UsedPorts(gone.template.host_ports)
    return held_capacity(gone) and taken.conflict(pod.template.host_ports) is not None


def left_capacity(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """A pod is gone that had a place."""
    return held_capacity(event.old)


def scaled_down(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """The pod asks for less, or a bound one does of something that the pod asks for."""
    if is_own(pod, event):
        return True
    before, after = event.old.template.requests, event.new.template.requests
    return bool(event.new.node) and any(
        amount > 0 and before.get(name, 0) > after.get(name, 0) for name, amount in pod.template.requests.items()
    )


def grew(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """The node, were it empty, would hold the pod, and is new or has more of something that the pod asks for."""
    old: Node | None = event.old
    amounts, requests = event.new.allocatable, pod.template.requests
    if amounts.get(names.PODS, 0) < 1 or any(
        amount > amounts.get(name, 0) for name, amount in requests.items() if amount > 0
    ):
        return False
    asked = [names.PODS, *(name for name, amount in requests.items() if amount > 0)]
    return old is None or any(amounts.get(name, 0) > old.allocatable.get(name, 0) for name in asked)


HINTS: Final[dict[str, Hints]] = {
    "SchedulingGates": {(POD, Action.POD_GATES_ELIMINATED): own_change},
    "NodeName": {(NODE, Action.ADD): always},
    "NodeUnschedulable": {
        (NODE, Action.ADD): opened,
        (NODE, Action.NODE_TAINT): opened,
        (POD, Action.POD_TOLERATION): gained_cordon_toleration,
    },
    "TaintToleration": {
        (NODE, Action.ADD): lost_taint,
        (NODE, Action.NODE_TAINT): lost_taint,
        (POD, Action.POD_TOLERATION): own_change,
    },
    "NodeAffinity": {(NODE, Action.ADD): began_to_match, (NODE, Action.NODE_LABEL): began_to_match},
    "QuotaTree": {(NODE, Action.ADD): always, (NODE, Action.NODE_LABEL): always},
    "NodePorts": {(POD, Action.DELETE): freed_ports, (NODE, Action.ADD): always},
    "NodeResourcesFit": {
        (POD, Action.DELETE): left_capacity,
        (POD, Action.POD_SCALE_DOWN): scaled_down,
        (NODE, Action.ADD): grew,
        (NODE, Action.NODE_ALLOCATABLE): grew,
    },
}
"""By the name of the constraint."""

READS: Final[dict[str, Reader]] = {
    "SchedulingGates": lambda pod: pod.uid,
    "NodeName": lambda pod: None,
    "NodeUnschedulable": lambda pod: pod.template.tolerations,
    "TaintToleration": lambda pod: pod.template.tolerations,
    "NodeAffinity": lambda pod: (pod.template.node_selector, pod.template.affinity),
    "QuotaTree": lambda pod: None,
    "NodePorts": lambda pod: pod.template.host_ports,
    "NodeResourcesFit": lambda pod: pod.template.requests,
}
"""What of a pod the hints look at, but for changes of the pod itself."""
