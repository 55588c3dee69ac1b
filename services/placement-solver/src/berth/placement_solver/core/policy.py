"""How nodes are scored: one set of weights, with the reason of each.

The cost of a placement on a node with GPUs is that of "dual prices": what the placement denies to others, priced by
the dual of a linear program over pod shapes, plus terms that keep cores beside idle GPUs and whole nodes whole. The
weights were found offline for the fill and the churn of published GPU traces (docs/decisions/0007-node-cost.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

from berth.rules.scheduler_config import FillingArgs, NodeCostArgs
from berth.rules.scheduler_config.node_cost import CORES_PER_GPU


class Weights(NamedTuple):
    """What the cost of a node with GPUs is made of.

    `share_denied` prices what a share takes from its card beyond its own size, `card_broken` the first share on a whole
    idle card, `cores_short` (cores per GPU, weight) idle GPUs left without enough cores, `gpus_left` idle GPUs beside a
    pod, by eight of them: how much fuller nodes are preferred; `cores_left` does so for cores. `node_broken` prices the
    first pod on an idle node of eight GPUs, `stranded` a card's worth of idle GPUs more that pods which arrive cannot
    use. `step` is the grain below which costs count as equal; `tie_cores` and `tie_gpus` decide then.
    """

    share_denied: float
    card_broken: float
    cores_short: tuple[tuple[int, float], ...]
    cores_left: float
    node_broken: float
    gpus_left: float
    stranded: float
    step: float
    tie_cores: float
    tie_gpus: float

    def towards(self, other: Weights, part: float) -> Weights:
        """Those that lie between these and the others, which have the same depths of cores."""
        found = [a if name == "cores_short" else a + (b - a) * part for name, a, b in self._pairs(other)]
        depths = zip(self.cores_short, other.cores_short, strict=True)
        short = tuple((cores, a + (b - a) * part) for (cores, a), (_, b) in depths)
        return Weights(*found)._replace(cores_short=short)

    def _pairs(self, other: Weights) -> Iterator[tuple[str, Any, Any]]:
        return zip(self._fields, self, other, strict=True)


FILLING: Final = Weights(
    share_denied=30.0,
    card_broken=2.8,
    cores_short=((4, 1.98), (8, 8.6), (12, 1.7), (20, 6.8)),
    cores_left=0.4,
    node_broken=5.7,
    gpus_left=-2.25,
    stranded=0.0,
    step=0.29,
    tie_cores=0.99,
    tie_gpus=-0.22,
)
TURNING_OVER: Final = Weights(
    share_denied=32.0,
    card_broken=5.0,
    cores_short=((4, 2.6), (8, 10.5), (12, -0.9), (20, 5.5)),
    cores_left=1.6,
    node_broken=5.7,
    gpus_left=54.0,
    stranded=75.0,
    step=0.82,
    tie_cores=2.2,
    tie_gpus=-1.4,
)


class Policy(NamedTuple):
    """Weights of the node cost; lower cost wins.

    While pods only come, nodes are filled as `filling` says; where as many leave, room comes back on any node, and
    `turning_over` packs, and looks at what pods that arrive can use; likewise where cores run out before GPUs do.
    `scarce` prices a GPU of a node that those want who can go to few others. While at most a part of the largest nodes
    is idle, a pod that does not need a whole one takes none as long as it fits elsewhere: `whole_reserve`, or
    `whole_reserve_of_asked` of the part of all GPUs that pods ask for who need one, if that is more. Nodes without GPUs
    follow `cpu_strategy`. `preference` is the price of a point of a weighed score that says what the pod prefers: how
    full a node without GPUs is costs 0 to 100, for which kube-scheduler gives 0 to 200 points.
    """

    filling: Weights = FILLING
    turning_over: Weights = TURNING_OVER
    scarce: float = 15.0
    whole_reserve: float = 0.03
    whole_reserve_of_asked: float = 0.35
    whole_reserve_cost: float = 500.0
    plain_node_bonus: float = 1000.0
    preference: float = 0.5
    foreign_part: float = 2000.0
    cpu_strategy: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"

    def weights(self, turning_over: float) -> Weights:
        """By how many leave for those that come, from 0 to 1."""
        return self.filling.towards(self.turning_over, turning_over)

    def reserve(self, whole: float) -> float:
        """The part of the largest nodes that is kept idle; `whole` is the part of GPUs asked for by who needs one."""
        return max(self.whole_reserve, self.whole_reserve_of_asked * whole)


def policy_of(args: NodeCostArgs, before: Policy) -> Policy:
    """A policy with the weights that a profile sets in place of those of `before`."""
    if args == _UNSET:
        return before
    own = {name: getattr(args, name) for name in ("scarce", "whole_reserve", "whole_reserve_of_asked")}
    return before._replace(
        filling=_weights_of(args.filling, before.filling),
        turning_over=_weights_of(args.turning_over, before.turning_over),
        **{name: value for name, value in own.items() if value is not None},
    )


def _weights_of(args: FillingArgs, before: Weights) -> Weights:
    said = {name: value for name in args.__struct_fields__ if (value := getattr(args, name)) is not None}
    if "cores_short" in said:
        said["cores_short"] = tuple(zip(CORES_PER_GPU, said["cores_short"], strict=True))
    return before._replace(**said)


_UNSET: Final = NodeCostArgs()
