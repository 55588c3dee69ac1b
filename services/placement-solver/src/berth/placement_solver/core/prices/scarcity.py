"""Where GPUs are scarce: on nodes that those ask for who can go to few others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

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


class _Bound(NamedTuple):
    """Where the pods of a class can go: `served` GPUs, on the nodes of `suits`; None: they are bound to none."""

    at: tuple[int, int, int]
    served: float
    suits: Mask | None


class Scarcity:
    """Over the nodes; `suitable` says which rows suit a class, whatever is free there.

    Where a class can go is worked out once, until nodes change: many classes can go to the same nodes, and are added up
    before anything is done for each node.
    """

    def __init__(self, nodes: Nodes, suitable: Callable[[PodClass], Mask]) -> None:
        self._nodes = nodes
        self._suitable = suitable
        self._bound: dict[PodClass, _Bound] = {}
        self._masks: dict[bytes, Mask] = {}

    def of(self, workload: Workload, before: Floats = NOWHERE) -> Floats:
        """Of each row: the GPUs that are asked for by pods of few nodes, over those that these nodes have, summed over
        the classes of such pods. The workload counts as if it asked for all GPUs of the cluster. Empty where nobody is
        bound to some nodes; `before` where little has changed.
        """
        counts = self._nodes.gpu_count[: len(self._nodes)].astype(np.float64)
        whole = float(counts.sum())
        at = (self._nodes.reshaped.end, counts.size, self._nodes.gpu_counts_version)
        asked, pressure = 0.0, dict[int, tuple[float, Mask]]()
        kept, self._bound = self._bound, {}
        if any(each.at != at for each in kept.values()):
            self._masks.clear()
        for cls, part in workload.classes():
            gpus = part * (cls.price.gpus if cls.price is not None else 0.0)
            asked += gpus
            found = kept.get(cls)
            if found is None or found.at != at:
                found = self._look(cls, counts, whole, at)
            self._bound[cls] = found
            if found.suits is not None:
                sum_, _ = pressure.get(id(found.suits), (0.0, found.suits))
                pressure[id(found.suits)] = sum_ + gpus / found.served, found.suits
        if not pressure or not asked:
            return NOWHERE
        result = np.zeros(counts.size)
        for sum_, suits in pressure.values():
            result[suits] += sum_ * whole / asked
        if before.size == result.size and np.abs(result - before).max() <= STAYS * before.max():
            return before
        return result

    def _look(self, cls: PodClass, counts: Floats, whole: float, at: tuple[int, int, int]) -> _Bound:
        suits = self._suitable(cls) & (counts > 0)
        served = float(counts[suits].sum())
        if not 0.0 < served < NEARLY_ALL * whole:
            return _Bound(at, served, None)
        return _Bound(at, served, self._masks.setdefault(suits.tobytes(), suits))
