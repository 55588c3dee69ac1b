"""How many pods of a class each node takes at most, for all nodes at once: an upper bound, which for plain amounts and
whole cards is what the exact check says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.cost import Costs
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.registry import share_a_node
from berth.placement_solver.core.seams import RowArray, Summed
from berth.rules.devices.columns import CORE, RATIO

Ints = npt.NDArray[np.int64]


def pods_at_most(cls: PodClass, count: int, nodes: Nodes, costs: Costs, rows: RowArray) -> Ints:
    """Of at most `count` pods, on each of the rows."""
    able = np.isfinite(costs.of(cls)[rows])
    most = np.where(able, count, 0).astype(np.int64)
    for column, amount in cls.demand.wants:
        most = np.minimum(most, nodes.free[column, rows] // max(amount, 1))
    for constraint, query in cls.by_capacity:
        if isinstance(constraint, Summed):
            most = np.minimum(most, constraint.pods_at_most(query, rows))
    want = cls.want
    if want is not None and not want.shared:
        most = np.minimum(most, nodes.fleet.whole(rows) // want.instances)
    elif want is not None:
        for column in (CORE, RATIO):
            asked = want.instances * want.amounts[column]
            if asked:
                most = np.minimum(most, nodes.fleet.free[column][:, rows].sum(axis=0) // asked)
    if not share_a_node(cls.by_capacity):
        most = np.minimum(most, 1)
    return most.clip(0)
