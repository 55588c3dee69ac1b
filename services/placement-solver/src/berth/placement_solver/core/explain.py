"""Why a pod fits nowhere: every reason with the number of nodes that it rules out, and one repair (`core.repair`).

Of a node the first constraint that rejects it names the reasons, in the order of the registry. The message has the
shape that kube-scheduler's users know: `0/12 nodes are available: 3 Insufficient cpu, ...`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from berth.contracts.base import Reason
from berth.placement_solver.core.cost import Costs
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.repair import capacity_repair
from berth.placement_solver.core.seams import Depends, Narrows, RowArray
from berth.placement_solver.core.words import listed
from berth.rules.unschedulable_message import NO_NODES, event_note, unschedulable_message, with_repair

OWN: Final = frozenset(
    {
        "contention",
        "gang",
        "internal",
        "invalid",
        "nodes",
        "none",
        "preallocation",
        "quota",
        "reservation",
        "unsupported",
        "verifier",
    }
)
"""Codes of reasons that kube-scheduler does not know. Any other without a number of nodes is of a constraint that
rejects the pod before a node is asked; then its text stands for all nodes."""
UNASKED: Final = "node(s) didn't satisfy plugin(s) [{}]"
"""Of nodes that are not asked, since constraints name the only ones that are worth it."""
REASONS_MAX: Final = 16
UNCLEAR: Final = Reason(code="none", message="no node takes the pod as it is now; it is tried again")
"""For a refusal of which no constraint could be named."""
NO_NODE_AT_ALL: Final = Reason(code="nodes", message=NO_NODES, repair="add a node")
BEING_TOLD: Final = Reason(code="none", message="no node takes it; the reasons are being worked out")


def untold(candidate: Candidate, nodes: Nodes) -> tuple[Reason, ...]:
    """Instead of the reasons for which no node takes this candidate: every constraint that may be one, without words.

    It costs next to nothing. Who has more time finds out which they are.
    """
    if not nodes.alive[: len(nodes)].any():
        return (NO_NODE_AT_ALL,)
    cls = candidate.cls
    if not cls.untold:
        cls.untold = tuple(Reason(code=constraint.name, message="") for constraint, _ in cls.asked)
    return (*cls.untold, *(Reason(code=constraint.name, message="") for constraint, _ in candidate.asked))


def is_untold(reasons: Iterable[Reason]) -> bool:
    """Whether the words are still to be made."""
    return any(not reason.message for reason in reasons)


def shown(reasons: Iterable[Reason]) -> list[Reason]:
    """The reasons as people see them, whether there are words or not yet."""
    found = list(reasons)
    told = [reason for reason in found if reason.message]
    return told if len(told) == len(found) else [*told, BEING_TOLD]


def nowhere(candidate: Candidate, nodes: Nodes, costs: Costs) -> tuple[Reason, ...]:
    """The reasons for which no node takes this candidate, most frequent first.

    For candidates of whom their class says all they are worked out once for as long as no node changes: replicas are
    refused by the hundred.
    """
    cls = candidate.cls
    costs.of(cls)
    if candidate.asked:
        return _nowhere(candidate, nodes)
    if cls.nowhere_at != cls.cost_at:
        cls.nowhere, cls.nowhere_at = _nowhere(candidate, nodes), cls.cost_at
    return cls.nowhere


def _nowhere(candidate: Candidate, nodes: Nodes) -> tuple[Reason, ...]:
    rows = np.flatnonzero(nodes.alive[: len(nodes)])
    if not rows.size:
        return (NO_NODE_AT_ALL,)
    found: dict[tuple[str, str], Reason] = {}
    short: set[tuple[str, str]] = set()
    asked = candidate.cls.rules.in_order((*candidate.cls.asked, *candidate.asked))
    narrowing = {each.name: names for each, query in asked if isinstance(each, Narrows) and (names := each.only(query))}
    if narrowing:
        only = frozenset.intersection(*narrowing.values())
        worth_it = np.array([nodes.names[row] in only for row in rows.tolist()], np.bool_)
        if not worth_it.all():
            key = (next(iter(narrowing)), UNASKED.format(" ".join(narrowing)))
            found[key] = Reason(code=key[0], message=key[1], nodes=int(np.count_nonzero(~worth_it)))
            rows = rows[worth_it]
    for constraint, query in asked:
        ruled_out = np.zeros(rows.shape, np.bool_)
        is_of_capacity = Depends.CAPACITY in constraint.depends
        for each in constraint.rejections(query, rows):
            if count := int(np.count_nonzero(each.rows)):
                key = (constraint.name, each.reason)
                before = found[key].nodes if key in found else 0
                found[key] = Reason(
                    code=key[0], message=key[1], nodes=before + count, repair="" if is_of_capacity else each.repair
                )
                ruled_out |= each.rows
                if is_of_capacity:
                    short.add(key)
        rows = rows[~ruled_out]
        if not rows.size:
            break
    if short:
        most = max(sorted(short), key=lambda key: found[key].nodes)
        repair = capacity_repair(candidate.cls, nodes, _suitable(candidate, nodes))
        found[most] = msgspec.structs.replace(found[most], repair=repair)
    reasons = sorted(found.values(), key=lambda reason: (-reason.nodes, reason.message))
    return tuple(reasons[:REASONS_MAX])


def _suitable(candidate: Candidate, nodes: Nodes) -> RowArray:
    """The nodes that would take it if they had what it asks for."""
    mask = candidate.cls.suitable[: len(nodes)].copy()
    for constraint, query in candidate.asked:
        if Depends.CAPACITY not in constraint.depends:
            mask &= constraint.mask(query, slice(0, mask.size))
    return np.flatnonzero(mask)


def message(reasons: Sequence[Reason], nodes: int, preemption: str = "", repair: str = "") -> str:
    """The text of the pod's condition: kube-scheduler's where the reasons are its own, then the repair.

    `preemption` says why nobody leaves for the pod, with its own full stop. `repair` is one that was tried; else what
    the reasons say would help.
    """
    plain = [reason for reason in reasons if not reason.nodes]
    own = [reason.message for reason in plain if reason.code in OWN]
    all_at_once = next((reason.message for reason in plain if reason.code not in OWN), "")
    counted = {reason.message: reason.nodes for reason in reasons if reason.nodes}
    text = "; ".join(own)
    if counted or all_at_once:
        text += "; " if text else ""
        text += unschedulable_message(nodes, counted, pre_filter=all_at_once, post_filter=preemption)
    return event_note(with_repair(text, repair or _told_repair(reasons)))


def _told_repair(reasons: Sequence[Reason]) -> str:
    """What has to be corrected in the pod has to be corrected all; of other repairs one does."""
    needed = [reason.repair for reason in reasons if reason.code in ("unsupported", "invalid") and reason.repair]
    return listed(needed) if needed else next((reason.repair for reason in reasons if reason.repair), "")
