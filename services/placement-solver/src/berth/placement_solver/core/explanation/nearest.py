"""The node that lacks least for a pod: each constraint that keeps the pod from it counts 1, an amount that is missing
the part of the request that is missing."""

from __future__ import annotations

import numpy as np

from berth.contracts.explanation import NearestMiss
from berth.placement_solver.core.explanation.forbids import Forbids
from berth.placement_solver.core.explanation.parts import OneAmount
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Target
from berth.placement_solver.core.words import amounts_listed, listed


def nearest_miss(forbids: Forbids, nodes: Nodes) -> NearestMiss | None:
    """None: there is no node."""
    rows = forbids.rows
    if not rows.size:
        return None
    missing = np.zeros(rows.shape)
    for part, bit in zip(forbids.parts, forbids.part_bits, strict=True):
        here = (forbids.bits & bit) != 0
        if isinstance(part.constraint, OneAmount):
            short = part.query.amount - nodes.free[part.query.column, rows[here]]
            missing[here] += np.minimum(short / part.query.amount, 1.0)
        else:
            missing[here] += 1.0
    best = int(np.argmin(missing))
    row, bits = int(rows[best]), int(forbids.bits[best])
    lacking: dict[str, int] = {}
    others: list[str] = []
    for part, bit in zip(forbids.parts, forbids.part_bits, strict=True):
        if not bits & bit:
            continue
        if isinstance(part.constraint, OneAmount):
            lacking[part.query.resource] = part.query.amount - int(nodes.free[part.query.column, row])
        else:
            rejection = part.constraint.filter(part.query, Target(row))
            others += rejection.reasons if rejection is not None else (part.code,)
    said = [f"lacks {listed(amounts_listed(lacking))}"] if lacking else []
    return NearestMiss(node=nodes.names[row], message="; ".join([*said, *others]), lacking=lacking)
