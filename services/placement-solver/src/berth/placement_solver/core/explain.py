"""Why a pod fits nowhere: every constraint with the number of nodes it rules out, the nearest miss, and a repair.

The message has the shape that kube-scheduler's users know: `0/12 nodes are available: 3 Insufficient cpu, ...`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from berth.contracts import names
from berth.contracts.base import Reason
from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.cost import Costs
from berth.placement_solver.core.nodes import Nodes
from berth.resources.amounts import format_amounts
from berth.rules import node_affinity, taints

MESSAGE_MAX: Final = 1024
REASONS_MAX: Final = 16


UNCLEAR: Final = Reason(code="none", message="no node takes the pod as it is now; it is tried again")
"""For a refusal of which no constraint could be named."""


def not_on(cls: PodClass, name: str, nodes: Nodes, costs: Costs) -> tuple[Reason, ...]:
    """The reasons for which the one node that was asked for does not take a pod of this class."""
    row = nodes.rows.get(name)
    if row is None or not nodes.alive[row]:
        return (Reason(code="node", message=f"node {name} does not exist", repair=f"add node {name}"),)
    costs.of(cls)
    if not cls.suitable[row]:
        return (Reason(code="node", message=f"node {name} does not suit: selector, affinity or taints"),)
    reasons = _short(cls, nodes, np.array([row], np.intp))
    return tuple(
        Reason(code=each.code, message=f"node {name}: {each.message}", repair=each.repair) for each in reasons
    ) or (UNCLEAR,)


def nowhere(cls: PodClass, nodes: Nodes, costs: Costs) -> tuple[Reason, ...]:
    """The reasons for which no node takes a pod of this class, most frequent first."""
    costs.of(cls)
    count = len(nodes)
    suitable = cls.suitable[:count]
    reasons = _unsuitable(cls, nodes)
    rows = np.flatnonzero(suitable)
    if rows.size:
        reasons += _short(cls, nodes, rows)
    if not nodes.alive[:count].any():
        return (Reason(code="nodes", message="there are no nodes", repair="add a node"),)
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
    repair = next((reason.repair for reason in reasons if reason.repair), "")
    if repair:
        text += f" To repair: {repair}."
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 3] + "..."


def _unsuitable(cls: PodClass, nodes: Nodes) -> list[Reason]:
    """Nodes ruled out by what they are, each under its first reason."""
    found: Counter[str] = Counter()
    for row in np.flatnonzero(nodes.alive[: len(nodes)] & ~cls.suitable[: len(nodes)]):
        node = nodes.states[row]
        if node is None:
            continue
        if not cls.rule.matches(node.labels, node.name):
            found[node_affinity.REASON] += 1
        elif node.unschedulable and not cls.tolerations.tolerate(taints.UNSCHEDULABLE_TAINT):
            found[taints.UNSCHEDULABLE_REASON] += 1
        else:
            taint = cls.tolerations.first_untolerated(node.taints)
            found[
                f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}" if taint else taints.TAINT_REASON
            ] += 1
    return [Reason(code="unsuitable", message=text, nodes=count) for text, count in found.items()]


def _short(cls: PodClass, nodes: Nodes, rows: np.ndarray) -> list[Reason]:
    """Suitable nodes that lack room, one reason per resource; a node may count under several."""
    reasons: list[Reason] = []
    by_column = {column: name for name, column in nodes.columns.items()}
    lacking = np.zeros((len(cls.columns), rows.size))
    for index, (column, amount) in enumerate(zip(cls.columns, cls.amounts, strict=True)):
        missing = np.maximum(amount - nodes.free[column, rows], 0)
        lacking[index] = missing / max(float(amount), 1.0)
        short = int(np.count_nonzero(missing))
        if short:
            least = int(missing[missing > 0].min())
            name = by_column[int(column)]
            reasons.append(
                Reason(
                    code=f"Insufficient {name}",
                    message=f"Insufficient {name}",
                    nodes=short,
                    repair="" if (missing == 0).any() else _lower(cls, name, least, nodes, rows, missing),
                )
            )
    full = int(np.count_nonzero(nodes.free[nodes.columns[names.PODS], rows] < 1))
    if full:
        reasons.append(Reason(code="Too many pods", message="Too many pods", nodes=full))
    if cls.want is not None:
        reasons += _no_devices(cls, nodes, rows, bool(reasons))
    return reasons


def _lower(cls: PodClass, name: str, least: int, nodes: Nodes, rows: np.ndarray, missing: np.ndarray) -> str:
    nearest = nodes.names[int(rows[int(np.argmin(np.where(missing > 0, missing, np.iinfo(np.int64).max)))])]
    amount = format_amounts({name: least})[name]
    return f"ask for {amount} less {name}, or free {amount} {name} on node {nearest}"


def _no_devices(cls: PodClass, nodes: Nodes, rows: np.ndarray, others: bool) -> list[Reason]:
    want = cls.want
    if want is None:
        return []
    unread = int(np.count_nonzero(nodes.unread[rows] > 0))
    candidates = nodes.fleet.candidates(want, rows)
    able = np.count_nonzero(candidates, axis=1)
    short = int(np.count_nonzero(able < want.instances)) - unread
    reasons = []
    if short > 0:
        best = int(able.max(initial=0))
        nearest = nodes.names[int(rows[int(np.argmax(able))])]
        repair = ""
        if not others:
            repair = (
                f"free {want.instances - best} more GPU(s) of that size on node {nearest}, or ask for {best}"
                if best
                else ("add a node with such GPUs, or free one")
            )
        reasons.append(
            Reason(code="Insufficient gpu devices", message="Insufficient gpu devices", nodes=short, repair=repair)
        )
    if unread:
        reasons.append(
            Reason(
                code="unread devices",
                message="node(s) hold GPU pods whose minors are unknown",
                nodes=unread,
                repair="let one scheduler hand out the GPUs of a node",
            )
        )
    return reasons
