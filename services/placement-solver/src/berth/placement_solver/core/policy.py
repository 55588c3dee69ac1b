"""How nodes are scored: one set of weights, with the reason of each.

The cost of a placement on a node with GPUs is that of "dual prices": what the placement denies to others, priced by
the dual of a linear program over pod shapes, plus terms that keep cores beside idle GPUs and whole nodes whole. The
weights were found offline for the fill and the churn of published GPU traces (docs/decisions/0007-node-cost.md).
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class Policy(NamedTuple):
    """Weights of the node cost; lower cost wins.

    `share_denied` prices what a share takes from its card beyond its own size, `card_broken` the first share on a whole
    idle card, `cores_short` (cores per GPU, weight) idle GPUs left without enough cores, `gpus_left` and `cores_left`
    push towards fuller nodes, `node_broken` the first pod on an idle node of eight GPUs, `step` the grain below which
    costs count as equal. While at most `whole_reserve` (a share of all) of the largest nodes is idle, a pod that does
    not need a whole one takes none as long as it fits elsewhere. Nodes without GPUs follow `cpu_strategy`. `preference`
    is the price of a point of a weighed score that says what the pod prefers: how full a node without GPUs is costs 0
    to 100, for which kube-scheduler gives 0 to 200 points.
    """

    share_denied: float = 30.0
    card_broken: float = 2.8
    cores_short: tuple[tuple[int, float], ...] = ((4, 1.98), (8, 8.6), (12, 1.7), (20, 6.8))
    gpus_left: float = -2.25
    cores_left: float = 0.4
    node_broken: float = 5.7
    step: float = 0.29
    tie_cores: float = 0.99
    tie_gpus: float = -0.22
    whole_reserve: float = 0.03
    whole_reserve_cost: float = 500.0
    plain_node_bonus: float = 1000.0
    preference: float = 0.5
    foreign_part: float = 2000.0
    cpu_strategy: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"


SHARE_PRICES: Final = (
    (16, 0.0),
    (22, 1 / 6),
    (29, 0.25),
    (39, 1 / 3),
    (45, 5 / 12),
    (50, 0.5),
    (57, 7 / 12),
    (66, 2 / 3),
    (100, 1.0),
)
"""What a share of at most so many percent of a card is worth, as a part of the card: what it denies to others."""
