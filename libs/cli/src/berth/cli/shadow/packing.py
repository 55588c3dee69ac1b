"""How full a cluster is, and what of it is of use to those who come."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.prices.stranding import WHOLE, Typical, stranded_on


class Packing(NamedTuple):
    """At one moment. `allocated` is what is taken of each resource, and how much there is; GPUs are counted in cards.

    `gpus_whole` are cards of which nobody holds anything, `nodes_whole` nodes with cards of which all are so,
    `gpus_stranded` what of idle cards is of no use to a pod that is drawn from those that come, in cards.
    """

    allocated: dict[str, tuple[int, int]]
    gpus_allocated: float
    gpus: int
    gpus_whole: int
    nodes_whole: int
    gpus_stranded: float


def packing_of(cluster: ClusterView, typical: tuple[Typical, ...]) -> Packing:
    """Of the nodes that are there."""
    nodes = cluster.nodes
    size = len(nodes)
    rows = np.flatnonzero(nodes.alive[:size])
    allocated = {}
    for name, column in nodes.columns.items():
        whole = int(nodes.allocatable[column, rows].sum())
        if whole:
            allocated[name] = (whole - int(nodes.free[column, rows].sum()), whole)
    cards = rows[nodes.gpu_count[rows] > 0]
    counts, whole_cards = nodes.gpu_count[cards], nodes.fleet.whole(cards)
    percent = nodes.fleet.percent[:, cards]
    gpus = int(counts.sum())
    return Packing(
        allocated,
        gpus - float(nodes.fleet.percent_sum[cards].sum()) / WHOLE,
        gpus,
        int(whole_cards.sum()),
        int(np.count_nonzero(whole_cards == counts)),
        float(stranded_on(typical, nodes.free[cluster.nodes.columns["cpu"], cards], percent).sum()) / WHOLE,
    )
