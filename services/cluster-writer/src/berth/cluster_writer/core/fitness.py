"""May the object still go to the node that was decided for it?

A decision can be minutes old when its bind gets through. What the solver went by is looked at once more: that the node
is the one that was chosen, that no cordon or taint keeps the object off it (unless its profile looks at none), and that
what it grants is there and healthy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.contracts.grants import granted
from berth.contracts.ledger import Decision
from berth.contracts.state import Device, Node, PodTemplate
from berth.rules.records.evidence import broken, called
from berth.rules.taints import UNSCHEDULABLE_TAINT, Tolerations

NO_DEVICES: Final[Mapping[str, Device]] = {}


def unfit(decision: Decision, template: PodTemplate, node: Node, device: Device | None, *, devices_known: bool) -> str:
    """Why the object may not go to this node any more; empty when it may.

    `device` is the Device object of the node, None if there is none; `devices_known` says whether that proves anything.
    """
    if decision.node_uid and decision.node_uid != node.uid:
        return f"node {node.name} was deleted and has registered anew"
    if node.unschedulable or node.taints:
        tolerations = Tolerations(template.tolerations)
        asks_cordon, asks_taints = (name not in decision.unasked for name in ("NodeUnschedulable", "TaintToleration"))
        if asks_cordon and node.unschedulable and not tolerations.tolerate(UNSCHEDULABLE_TAINT):
            return f"node {node.name} is cordoned"
        taint = tolerations.first_untolerated(node.taints) if asks_taints else None
        if taint is not None:
            return f"node {node.name} has the taint {taint.key}:{taint.effect}"
    return _broken(decision, device) if devices_known else ""


def _broken(decision: Decision, device: Device | None) -> str:
    """The first of what is granted that is not there, or not healthy."""
    for grant in granted(decision.allocation):
        problem = broken(grant, device)
        if problem:
            return f"{called(grant)} on {decision.node} {problem}"
    return ""
