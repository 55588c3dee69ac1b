"""What a user can do so that a pod fits: of all nodes the one where the least is missing, and exactly what is missing.

A repair is true as it stands: free what it names on that node, or ask for what it says, and the pod fits there. So it
never asks for more to be freed than the node has, and names everything that is missing at once. It does not look for
the pods whose leaving would do least harm. What is missing the constraints say that depend on capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.registry import Asked, share_a_node
from berth.placement_solver.core.seams import Freeable, Lacking, Reducible, Rejected, RowArray
from berth.placement_solver.core.ways_out import way_out
from berth.placement_solver.core.words import amounts_listed, listed

NODES_TRIED_MAX: Final = 8
"""How many of the nearest nodes are looked at exactly."""


def capacity_repair(cls: PodClass, nodes: Nodes, rows: RowArray) -> str:
    """How one pod of a class would fit on one of these rows, all of which suit the class."""
    asked = cls.by_capacity
    known = _known(asked, rows)
    if known:
        return known
    for row in _nearest(asked, rows, np.ones_like(rows)):
        lacking = _lacking(asked, row, 1)
        if lacking is not None:
            return _free(lacking, nodes.names[row]) + _or_ask(lacking)
    return _ask_for_less(asked, nodes, rows) or _way_out(asked, rows) or "add a node with capacity for it"


def group_repair(cls: PodClass, nodes: Nodes, placed: Mapping[int, int], lacking: int) -> str:
    """How all pods of a group of this class would fit: `placed` have found capacity on these rows, `lacking` have not.

    The capacity must be as it is without them all.
    """
    asked, rows = cls.by_capacity, np.flatnonzero(cls.suitable[: len(nodes)])
    known = _known(asked, rows)
    if known:
        return known
    counts = np.array([lacking + placed.get(int(row), 0) for row in rows], np.intp)
    for row in _nearest(asked, rows, counts) if share_a_node(asked) else ():
        missing = _lacking(asked, row, lacking + placed.get(row, 0))
        if missing is not None:
            return _free(missing, nodes.names[row])
    return f"add nodes with capacity for {lacking} such pods"


def _known(asked: Sequence[Asked], rows: RowArray) -> str:
    """What a constraint says would help, if there are nodes where no other one stands in the way."""
    return next((each.repair for each in _alone(asked, rows) if each.repair), "")


def _way_out(asked: Sequence[Asked], rows: RowArray) -> str:
    """What would help where no free capacity does, if there are nodes where nothing else stands in the way."""
    return next((words for each in _alone(asked, rows) if (words := way_out(each.reason))), "")


def _alone(asked: Sequence[Asked], rows: RowArray) -> Iterator[Rejected]:
    """What constraints say of nodes where no other one stands in the way."""
    for constraint, query in asked:
        for each in constraint.rejections(query, rows):
            if each.rows.any():
                there = rows[each.rows]
                others = (other.mask(its, there) for other, its in asked if other is not constraint)
                if np.logical_and.reduce([np.ones(there.shape, np.bool_), *others]).any():
                    yield each


def _nearest(asked: Sequence[Asked], rows: RowArray, counts: RowArray) -> list[int]:
    """Rows that could hold so many pods if they were empty; those of which the smallest part has to be freed first."""
    distance = np.zeros(rows.shape)
    for constraint, query in asked:
        if isinstance(constraint, Freeable):
            distance += constraint.distance(query, rows, counts)
        else:
            distance[~constraint.mask(query, rows)] = np.inf
    found = np.flatnonzero(np.isfinite(distance))
    return [int(rows[each]) for each in found[np.argsort(distance[found], kind="stable")][:NODES_TRIED_MAX]]


def _lacking(asked: Sequence[Asked], row: int, count: int) -> list[Lacking] | None:
    """What a node lacks by each constraint that lacks something; None when it cannot be made to do."""
    found: list[Lacking] = []
    for constraint, query in asked:
        if isinstance(constraint, Freeable):
            lacking = constraint.lacking(query, row, count)
            if lacking is None:
                return None
            if lacking.amounts or lacking.things:
                found.append(lacking)
    return found


def _free(lacking: Sequence[Lacking], node: str) -> str:
    parts = [part for each in lacking for part in amounts_listed(each.amounts)]
    parts += [thing for each in lacking for thing in each.things]
    return f"free {listed(parts)} on node {node}" if parts else ""


def _or_ask(lacking: Sequence[Lacking]) -> str:
    """The other way to the same end, where there is one: the pod asks for less."""
    return f", or ask for {lacking[0].less}" if len(lacking) == 1 and lacking[0].less else ""


def _ask_for_less(asked: Sequence[Asked], nodes: Nodes, rows: RowArray) -> str:
    """For a pod larger than any node: what one node has free, if nothing but that stands in the way there."""
    reducible = [(constraint, query) for constraint, query in asked if isinstance(constraint, Reducible)]
    if not reducible or not rows.size:
        return ""
    part = np.minimum.reduce([constraint.part(query, rows) for constraint, query in reducible])
    for constraint, query in asked:
        if not isinstance(constraint, Reducible):
            part[~constraint.mask(query, rows)] = 0.0
    best = int(np.argmax(part))
    if part[best] <= 0:
        return ""
    row = int(rows[best])
    less = [words for constraint, query in reducible if (words := constraint.at_most(query, row))]
    return f"ask for at most {listed(less)}, which node {nodes.names[row]} has free" if less else ""
