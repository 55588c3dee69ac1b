"""How nodes are scored: one set of weights, with the reason of each.

The cost of a placement on a node with GPUs is that of "dual prices": what the placement denies to others, priced by
the dual of a linear program over pod shapes, plus terms that keep cores beside idle GPUs and whole nodes whole. The
weights were found offline for the fill and the churn of published GPU traces (docs/decisions/0007-node-cost.md).
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Fullness(NamedTuple):
    """How much fuller nodes are preferred: `gpus_left` is the price of idle GPUs beside a pod, by eight of them; `step`
    the grain below which costs count as equal."""

    gpus_left: float
    step: float


class Policy(NamedTuple):
    """Weights of the node cost; lower cost wins.

    `share_denied` prices what a share takes from its card beyond its own size, `card_broken` the first share on a whole
    idle card, `cores_short` (cores per GPU, weight) idle GPUs left without enough cores, `cores_left` pushes towards
    fuller nodes, `node_broken` prices the first pod on an idle node of eight GPUs, `scarce` a GPU of a node that those
    want who can go to few others. While pods only come, nodes are filled as `filling` says; where as many leave, room
    comes back on any node, and `turning_over` packs. While at most `whole_reserve` (a share of all) of the largest
    nodes is idle, a pod that does not need a whole one takes none as long as it fits elsewhere. Nodes without GPUs
    follow `cpu_strategy`. `preference` is the price of a point of a weighed score that says what the pod prefers: how
    full a node without GPUs is costs 0 to 100, for which kube-scheduler gives 0 to 200 points.
    """

    share_denied: float = 30.0
    card_broken: float = 2.8
    cores_short: tuple[tuple[int, float], ...] = ((4, 1.98), (8, 8.6), (12, 1.7), (20, 6.8))
    cores_left: float = 0.4
    node_broken: float = 5.7
    scarce: float = 10.0
    filling: Fullness = Fullness(-2.25, 0.29)
    turning_over: Fullness = Fullness(50.0, 1.5)
    tie_cores: float = 0.99
    tie_gpus: float = -0.22
    whole_reserve: float = 0.03
    whole_reserve_cost: float = 500.0
    plain_node_bonus: float = 1000.0
    preference: float = 0.5
    foreign_part: float = 2000.0
    cpu_strategy: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"

    def fullness(self, turning_over: float) -> Fullness:
        """By how many leave for those that come, from 0 to 1."""
        filling, packing = self.filling, self.turning_over
        return Fullness(*(a + (b - a) * turning_over for a, b in zip(filling, packing, strict=True)))
