"""Why a pod fits nowhere: every constraint with the number of nodes it rules out, and one repair (`core.repair`).

The message has the shape that kube-scheduler's users know: `0/12 nodes are available: 3 Insufficient cpu, ...`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.contracts.base import Reason
from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.cost import Costs
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.repair import capacity_repair, listed
from berth.rules import gpu_partitions, node_affinity, ports, taints
from berth.rules.node_fit import TOO_MANY_PODS

MESSAGE_MAX: Final = 1024
REASONS_MAX: Final = 16
UNREAD: Final = "node(s) hold GPU pods whose minors are unknown"
UNCOUNTED: Final = "node(s) whose devices wait to be counted by device-inventory"
UNSUITABLE: Final = "unsuitable"
"""Code of what a node is (labels, taints, whether it is open): it takes the pod no more when others leave it."""
CODES: Final = {UNREAD: "unread devices", UNCOUNTED: "uncounted devices", ports.REASON: "ports"}
"""Codes of reasons whose text is not their code."""

UNCLEAR: Final = Reason(code="none", message="no node takes the pod as it is now; it is tried again")
"""For a refusal of which no constraint could be named."""


def not_on(cls: PodClass, name: str, nodes: Nodes, costs: Costs) -> tuple[Reason, ...]:
    """The reasons for which the one node that was asked for does not take a pod of this class."""
    row = nodes.rows.get(name)
    if row is None or not nodes.alive[row]:
        return (Reason(code="node", message=f"node {name} does not exist", repair=f"add node {name}"),)
    costs.of(cls)
    if not cls.suitable[row]:
        return (Reason(code="node", message=f"node {name}: {_unsuitable_for(cls, nodes, row)}"),)
    reasons = _short(cls, nodes, np.array([row], np.intp))
    return tuple(
        Reason(code=each.code, message=f"node {name}: {each.message}", repair=each.repair) for each in reasons
    ) or (UNCLEAR,)


def nowhere(cls: PodClass, nodes: Nodes, costs: Costs) -> tuple[Reason, ...]:
    """The reasons for which no node takes a pod of this class, most frequent first.

    They are worked out once for as long as no node changes: replicas are refused by the hundred.
    """
    costs.of(cls)
    if cls.nowhere_at != cls.cost_at:
        cls.nowhere, cls.nowhere_at = _nowhere(cls, nodes), cls.cost_at
    return cls.nowhere


def _nowhere(cls: PodClass, nodes: Nodes) -> tuple[Reason, ...]:
    alive = nodes.alive[: len(nodes)]
    if not alive.any():
        return (Reason(code="nodes", message="there are no nodes", repair="add a node"),)
    suitable = cls.suitable[: len(nodes)]
    reasons = [
        Reason(code=UNSUITABLE, message=text, nodes=rows)
        for text, rows in Counter(
            _unsuitable_for(cls, nodes, int(row)) for row in np.flatnonzero(alive & ~suitable)
        ).items()
    ]
    rows = np.flatnonzero(suitable)
    if rows.size:
        reasons += _short(cls, nodes, rows)
    reasons.sort(key=lambda reason: (-reason.nodes, reason.message))
    return tuple(reasons[:REASONS_MAX])


def message(reasons: Sequence[Reason], nodes: int) -> str:
    """One sentence for the pod's condition, bounded in length."""
    counted = [reason for reason in reasons if reason.nodes]
    plain = [reason.message for reason in reasons if not reason.nodes]
    text = "; ".join(plain)
    if counted:
        text += "; " if text else ""
        listed = ", ".join(f"{reason.nodes} {reason.message}" for reason in counted)
        text += f"0/{nodes} nodes are available: {listed}."
    repair = _told_repair(reasons)
    if repair:
        text += f"{'' if text.endswith('.') else '.'} To repair: {repair}."
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 3] + "..."


def _told_repair(reasons: Sequence[Reason]) -> str:
    """What has to be corrected in the pod has to be corrected all; of other repairs one does."""
    needed = [reason.repair for reason in reasons if reason.code in ("unsupported", "invalid") and reason.repair]
    return listed(needed) if needed else next((reason.repair for reason in reasons if reason.repair), "")


def _unsuitable_for(cls: PodClass, nodes: Nodes, row: int) -> str:
    """The first reason for which a node is ruled out by what it is."""
    node = nodes.states[row]
    if node is None or not cls.rule.matches(node.labels, node.name):
        return node_affinity.REASON
    if node.unschedulable and not cls.tolerations.tolerate(taints.UNSCHEDULABLE_TAINT):
        return taints.UNSCHEDULABLE_REASON
    taint = cls.tolerations.first_untolerated(node.taints)
    if taint is not None:
        return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return gpu_partitions.REASON


def _short(cls: PodClass, nodes: Nodes, rows: npt.NDArray[np.intp]) -> list[Reason]:
    """Suitable nodes that lack capacity, one reason per resource; a node may count under several."""
    by_column = {column: name for name, column in nodes.columns.items()}
    found: dict[str, int] = {}
    for column, amount in zip(cls.columns, cls.amounts, strict=True):
        found[f"Insufficient {by_column[int(column)]}"] = int(np.count_nonzero(nodes.free[column, rows] < amount))
    found[TOO_MANY_PODS] = int(np.count_nonzero(nodes.free[nodes.columns[names.PODS], rows] < 1))
    if cls.want is not None:
        uncounted = nodes.uncounted[rows]
        unreadable = (nodes.unreadable[rows] > 0) & ~uncounted
        known = ~(unreadable | uncounted)
        found["Insufficient gpu devices"] = int(np.count_nonzero(known & ~nodes.fleet.fits(cls.want, rows)))
        found[UNREAD] = int(np.count_nonzero(unreadable))
        found[UNCOUNTED] = int(np.count_nonzero(uncounted))
    if cls.template.host_ports:
        wanted = cls.template.host_ports
        found[ports.REASON] = sum(1 for row in rows if nodes.ports[int(row)].conflict(wanted))
    reasons = [Reason(code=CODES.get(text, text), message=text, nodes=short) for text, short in found.items() if short]
    if reasons:
        most = max(range(len(reasons)), key=lambda index: reasons[index].nodes)
        reasons[most] = msgspec.structs.replace(reasons[most], repair=capacity_repair(cls, nodes, rows))
    return reasons
