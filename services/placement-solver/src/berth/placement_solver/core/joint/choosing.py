"""Which nodes the integer model of a batch looks at.

Those that each kind of pods would rather have, as many as it needs with some to choose among; and those of the plan at
hand, so that the model knows that plan, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.cost import Costs
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.picking import Picker
from berth.placement_solver.core.pods_at_most import pods_at_most
from berth.placement_solver.core.seams import RowArray

NODES_MAX: Final = 160
VARIABLES_MAX: Final = 8_000
"""Kinds of pods times nodes; at least so many nodes as `NODES_MIN`."""
NODES_MIN: Final = 24
PLENTY: Final = 3
"""Each kind has nodes for so many times its pods."""


def rows_for(
    kinds: Sequence[tuple[PodClass, int]], at_hand: Iterable[int], nodes: Nodes, costs: Costs, picker: Picker
) -> RowArray:
    """The rows, for so many pods of each class; `at_hand` are those of the plan at hand."""
    limit = min(NODES_MAX, max(NODES_MIN, VARIABLES_MAX // max(1, len(kinds))))
    counts: dict[PodClass, int] = {}
    for cls, count in kinds:
        counts[cls] = counts.get(cls, 0) + count
    wished = [_wished(cls, count, limit, nodes, costs, picker) for cls, count in counts.items()]
    chosen = dict.fromkeys(at_hand)
    for place in range(max(map(len, wished), default=0)):
        chosen.update(dict.fromkeys(each[place] for each in wished if place < len(each)))
    return np.array(sorted(list(chosen)[:limit]), np.intp)


def _wished(cls: PodClass, count: int, limit: int, nodes: Nodes, costs: Costs, picker: Picker) -> list[int]:
    cost = picker.in_order(cls, costs.of(cls))
    able = np.flatnonzero(np.isfinite(cost))
    if able.size > limit:
        able = able[np.argpartition(cost[able], limit - 1)[:limit]]
    ordered = able[np.lexsort((able, cost[able]))]
    room = np.cumsum(pods_at_most(cls, count, nodes, costs, ordered))
    enough = int(np.searchsorted(room, PLENTY * count)) + 1
    found: list[int] = ordered[:enough].tolist()
    return found
