"""May the object still go to the node that was decided for it?

A decision can be minutes old when its bind gets through. What the solver went by is looked at once more: that the node
is the one that was chosen and lies in the domain of its gang, that no cordon or taint keeps the object off it (unless
its profile looks at none), and that what it grants is there, healthy, still the same device, and not kept out by the
node's annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.cluster_writer.core.gangs import strays
from berth.cluster_writer.core.handing import OFF, bind_of, given_by, handed
from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import DEVICE_KINDS, VF, device_of, granted
from berth.contracts.ledger import Decision
from berth.contracts.state import Device, Node, PodTemplate
from berth.rules.device_cordon import read_device_cordon
from berth.rules.devices.kubelet_counts import GPU, counts_shown
from berth.rules.records.evidence import broken, called
from berth.rules.taints import UNSCHEDULABLE_TAINT, Tolerations

NO_DEVICES: Final[Mapping[str, Device]] = {}


def unfit(
    decision: Decision,
    template: PodTemplate,
    node: Node,
    device: Device | None,
    *,
    vendors: frozenset[str] = OFF,
) -> str:
    """Why the object may not go to this node any more; empty when it may.

    `device` is the Device object of the node, None if there is none, which matters where devices are granted alone.
    `vendors` are those to whose device plugins something is handed.
    """
    if decision.node_uid and decision.node_uid != node.uid:
        return f"node {node.name} was deleted and has registered anew"
    strayed = strays(decision, node)
    if strayed:
        return strayed
    if node.unschedulable or node.taints:
        tolerations = Tolerations(template.tolerations)
        asks_cordon, asks_taints = (name not in decision.unasked for name in ("NodeUnschedulable", "TaintToleration"))
        if asks_cordon and node.unschedulable and not tolerations.tolerate(UNSCHEDULABLE_TAINT):
            return f"node {node.name} is cordoned"
        taint = tolerations.first_untolerated(node.taints) if asks_taints else None
        if taint is not None:
            return f"node {node.name} has the taint {taint.key}:{taint.effect}"
    return (
        _broken(decision, device)
        or _swapped(decision, device)
        or _kept_out(decision, node, device)
        or _not_handed(decision, template, device, vendors)
    )


def asks_devices(decision: Decision) -> bool:
    """Whether it grants something that the Device object of its node tells of."""
    return any(grant.kind in DEVICE_KINDS or grant.kind == VF for grant in granted(decision.allocation))


def _broken(decision: Decision, device: Device | None) -> str:
    """The first of what is granted that is not there, or not healthy."""
    for grant in granted(decision.allocation):
        problem = broken(grant, device)
        if problem:
            return f"{called(grant)} on {decision.node} {problem}"
    return ""


def _swapped(decision: Decision, device: Device | None) -> str:
    """That another device has the minor of one that is granted: by its id, where both are known."""
    if not any(grant.kind in DEVICE_KINDS for grant in granted(decision.allocation)):
        return ""
    given = given_by(decision)
    if isinstance(given, Problem):
        return f"{given.field}: {given.message}"
    there = {(each.kind, each.minor): each.uuid for each in (device.devices if device is not None else [])}
    for each in given:
        found = there.get((each.kind, each.minor), "")
        if each.id and found and each.id != found:
            return f"{each.kind} minor {each.minor} on {decision.node} is {found[:64]} now, and was {each.id[:64]}"
    return ""


def _kept_out(decision: Decision, node: Node, device: Device | None) -> str:
    """That the node's annotation has come to keep a device out of placements that is granted, or that kubelet may
    pick."""
    if names.ANNOTATION_DEVICE_CORDON not in node.annotations:
        return ""
    cordon, _ = read_device_cordon(node.annotations)
    ids = {(each.kind, each.minor): each.uuid for each in (device.devices if device is not None else [])}
    gpus = [minor for (kind, minor), name in ids.items() if kind == GPU and cordon.covers(kind, minor, name)]
    for count in sorted(counts_shown(node.allocatable)) if gpus else ():
        if decision.allocation.amounts.get(count, 0) > 0:
            return f"kubelet of {decision.node} may pick gpu {min(gpus)} for {count}, and it is cordoned"
    for grant in granted(decision.allocation):
        kind, minor = device_of(grant) if grant.kind == VF else (grant.kind, grant.minor)
        if kind in DEVICE_KINDS and cordon.covers(kind, minor, ids.get((kind, minor), "")):
            return f"{called(grant)} on {decision.node} is cordoned"
    return ""


def _not_handed(decision: Decision, template: PodTemplate, device: Device | None, vendors: frozenset[str]) -> str:
    """Why the vendor's device plugin cannot be told what is granted."""
    found = handed(bind_of(decision, template.labels, device, vendors, 0), device)
    return f"{found.field}: {found.message}" if isinstance(found, Problem) else ""
