"""Where GPUs are scarce: on nodes that those ask for who can go to few others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from berth.placement_solver.core.prices.workload import Workload
from berth.placement_solver.core.seams import Floats, Mask

if TYPE_CHECKING:
    from berth.placement_solver.core.classes import PodClass
    from berth.placement_solver.core.nodes import Nodes

NEARLY_ALL: Final = 0.9
"""Who can go to this part of all GPUs is not bound to some."""
NOWHERE: Final[Floats] = np.zeros(0)
STAYS: Final = 0.1
"""A change by less than this part of the highest makes no new prices."""


def scarcity_of(
    workload: Workload, nodes: Nodes, suitable: Callable[[PodClass], Mask], before: Floats = NOWHERE
) -> Floats:
    """Of each row: the GPUs that are asked for by pods of few nodes, over those that these nodes have, summed over the
    classes of such pods. The workload counts as if it asked for all GPUs of the cluster. Empty where nobody is bound to
    some nodes; `before` where little has changed. `suitable` says which rows suit a class, whatever is free there.
    """
    counts = nodes.gpu_count[: len(nodes)].astype(np.float64)
    whole = float(counts.sum())
    asked, bound = 0.0, []
    for cls, part in workload.classes():
        gpus = part * (cls.price.gpus if cls.price is not None else 0.0)
        asked += gpus
        suits = suitable(cls) & (counts > 0)
        served = float(counts[suits].sum())
        if 0.0 < served < NEARLY_ALL * whole:
            bound.append((gpus / served, suits))
    if not bound or not asked:
        return NOWHERE
    found = np.zeros(counts.size)
    for pressure, suits in bound:
        found += suits * (pressure * whole / asked)
    if before.size == found.size and np.abs(found - before).max() <= STAYS * before.max():
        return before
    return found
