"""The weights of Berth's node cost, for sites whose pods are others than those that its own were found for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.contracts.base import Problem
from berth.rules.scheduler_config.shapes import Strict

CORES_PER_GPU: Final = (4, 8, 12, 20)
"""The depths of `cores_short`."""
WEIGHT_MAX: Final = 500.0
STEP_MIN: Final = 0.001
STEP_MAX: Final = 100.0
SCARCE_MAX: Final = 1000.0


class FillingArgs(Strict, frozen=True, kw_only=True):
    """Weights of the cost of a node with GPUs while pods only come. None: Berth's own.

    `share_denied` prices what a share takes from its card beyond its own size, `card_broken` the first share on an idle
    card, `cores_short` idle GPUs left with fewer than 4, 8, 12 and 20 cores each, `cores_left` and `gpus_left` what is
    left idle beside the pod: below 0 they draw it to emptier nodes. `node_broken` prices the first pod on an idle node
    of eight GPUs. Costs within one `step` count as equal.
    """

    share_denied: float | None = None
    card_broken: float | None = None
    cores_short: tuple[float, float, float, float] | None = None
    cores_left: float | None = None
    node_broken: float | None = None
    gpus_left: float | None = None
    step: float | None = None


class TurningOverArgs(FillingArgs, frozen=True, kw_only=True):
    """The same where as many pods leave as come. `stranded` prices idle GPUs that typical pods cannot use."""

    stranded: float | None = None


class NodeCostArgs(Strict, frozen=True, kw_only=True):
    """What of the node cost may be set.

    Where some pods leave, what holds lies between `filling` and `turning_over`. `scarce` prices a GPU of a node that
    those want who can go to few others. `whole_reserve` is the part of the largest nodes that is kept for who needs a
    whole one, or `whole_reserve_of_asked` times the part of GPUs that such pods ask for, if that is more.
    """

    filling: FillingArgs = FillingArgs()
    turning_over: TurningOverArgs = TurningOverArgs()
    scarce: float | None = None
    whole_reserve: float | None = None
    whole_reserve_of_asked: float | None = None


def problems_of(args: NodeCostArgs, path: str) -> Iterator[Problem]:
    """What is wrong with the weights. `path` is where they stand."""
    for name, weights in (("filling", args.filling), ("turningOver", args.turning_over)):
        for field, key in zip(weights.__struct_fields__, weights.__struct_encode_fields__, strict=True):
            value, place = getattr(weights, field), f"{path}.{name}.{key}"
            if field == "cores_short":
                for at, each in enumerate(value or ()):
                    yield from _within(each, -WEIGHT_MAX, WEIGHT_MAX, f"{place}[{at}]")
            elif field == "step":
                yield from _within(value, STEP_MIN, STEP_MAX, place)
            else:
                yield from _within(value, -WEIGHT_MAX, WEIGHT_MAX, place)
    yield from _within(args.scarce, 0.0, SCARCE_MAX, f"{path}.scarce")
    yield from _within(args.whole_reserve, 0.0, 1.0, f"{path}.wholeReserve")
    yield from _within(args.whole_reserve_of_asked, 0.0, 1.0, f"{path}.wholeReserveOfAsked")


def _within(value: float | None, least: float, most: float, path: str) -> Iterator[Problem]:
    if value is not None and not least <= value <= most:
        yield Problem(field=path, message=f"{value:g} is not between {least:g} and {most:g}")
