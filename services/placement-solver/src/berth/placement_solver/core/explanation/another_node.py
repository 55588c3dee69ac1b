"""One more node, or several, of a kind that there is: the smallest kind, and as few, with which it is placed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias

import numpy as np

from berth.contracts.explanation import Repair
from berth.placement_solver.core.explanation.proving import Change, Means, added, places
from berth.placement_solver.core.explanation.units import needed_of
from berth.placement_solver.core.nodes import CPU, MEMORY
from berth.placement_solver.core.plan import Unit

KINDS_MAX: Final = 8
NODES_MAX: Final = 64
"""So many are proposed for a gang at most."""
FACTOR: Final = 0x9E3779B97F4A7C1
"""Odd and large."""

Steps: TypeAlias = "Generator[None, None, list[Repair]]"


def add_nodes(unit: Unit, means: Means, change: Change) -> Steps:
    """The smallest kind of node that helps; with another change made, too."""
    most = min(NODES_MAX, len(needed_of(unit)) if unit.needed else 1)
    kinds = kinds_of(unit, means)
    yield
    for row in kinds:
        if not places(means.solver, unit, (change, added(means.solver, row, most))):
            yield
            continue
        yield
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            if places(means.solver, unit, (change, added(means.solver, row, middle))):
                high = middle
            else:
                low = middle + 1
            yield
        node = means.nodes.names[row]
        count = f"{high} more nodes" if high > 1 else "a node"
        return [Repair(kinds=["add"], message=f"add {count} like {node}", nodes=high, like=node)]
    return []


def kinds_of(unit: Unit, means: Means) -> list[int]:
    """A row of each kind that is large enough, the smallest first: by cards, then by cpu and memory. A kind is what a
    node has and how it is tainted; of its nodes one that suits the pod stands for it, if there is one."""
    nodes = means.nodes
    if not unit.candidates:
        return []
    candidate = unit.candidates[0]
    rows = np.flatnonzero(nodes.alive[: len(nodes)])
    able = np.ones(rows.size, np.bool_)
    for column, amount in candidate.cls.demand.wants:
        able &= nodes.allocatable[column, rows] >= amount
    rows = rows[able]
    if not rows.size:
        return []
    suits = means.solver.costs.suitable(candidate.cls)[rows]
    order = np.lexsort((~suits, nodes.allocatable[MEMORY, rows], nodes.allocatable[CPU, rows], nodes.gpu_count[rows]))
    shapes = np.vstack([nodes.allocatable[:, rows], nodes.gpu_count[rows], suits])[:, order]
    mixed = np.zeros(rows.size, np.int64)  # sums of products tell kinds apart, and cost less than to compare columns
    for index, row in enumerate(shapes):
        mixed += np.int64(pow(FACTOR, index + 1, 1 << 61)) * row
    ranked = np.argsort(mixed, kind="stable")
    is_first = np.ones(rows.size, np.bool_)
    is_first[1:] = np.diff(mixed[ranked]) != 0
    first = np.sort(ranked[is_first])
    kinds, fitting = rows[order[first]].tolist(), suits[order[first]].tolist()
    return [row for suit in (True, False) for row, does in zip(kinds, fitting, strict=True) if does is suit][:KINDS_MAX]
