"""A table of prices: what a share of a card is worth, where GPUs are scarce, and how full nodes should be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from berth.contracts import names
from berth.placement_solver.core.prices.stranding import Typical, typical_of
from berth.placement_solver.core.prices.workload import Workload
from berth.placement_solver.core.seams import Floats

WHOLE: Final = 100
"""Percent of a card."""

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
"""What a share of at most so many percent of a card is worth, as a part of the card: what it denies to others. They are
the duals of a linear program over share sizes, and come out alike for all published mixes."""

KNOWN_FROM: Final = 300
"""Arrivals from which on the workload is known well enough to go by."""
RARE: Final = 0.002
"""A size that fewer shares of a card have does not count: nobody keeps room for it."""
STEPS: Final = 4
"""Grain of `turning_over`, so that noise makes no new prices."""
WHOLE_STEP: Final = 0.05
"""Grain of `whole`."""
TURNS_OVER: Final = 0.5
"""So many that leave for each that comes: the cluster is full, and what comes takes the room of what leaves."""
TIGHT_FROM: Final = 0.95
"""From so many cores on that are asked for beside a GPU, as a part of those that there are, cores begin to be short."""
TIGHT: Final = 1.02
"""From so many on they run out before the GPUs do."""


class Prices(NamedTuple):
    """What holds for all classes.

    `shares` are sizes of shares in percent of a card, ascending, and what each is worth as a part of the card. Empty:
    the sizes that arrive are not known, and the smallest of each range of `SHARE_PRICES` stands for it.
    `turning_over` is 0 while pods only come, and 1 where as many leave, or where cores run out before GPUs do: either
    way GPUs that nobody can use are what is lost. Above 0, `typical` are the kinds of pods that arrive most. `whole` is
    the part of all GPUs that pods ask for who need a whole one of the largest nodes.
    """

    shares: tuple[tuple[int, float], ...] = ()
    turning_over: float = 0.0
    whole: float = 0.0
    typical: tuple[Typical, ...] = ()


UNKNOWN: Final = Prices()


def price_of_share(percent: int) -> float:
    """What a share of this size is worth by `SHARE_PRICES`."""
    return next(price for upto, price in SHARE_PRICES if percent <= upto)


def mix_of(workload: Workload) -> dict[int, float]:
    """The shares of cards that arrive: by size, which part of all shares."""
    by_size: dict[int, float] = {}
    for cls, part in workload.classes():
        if cls.price is not None and cls.price.share:
            by_size[cls.price.share] = by_size.get(cls.price.share, 0.0) + part
    whole = sum(by_size.values())
    return {size: part / whole for size, part in by_size.items()}


def prices_of(
    workload: Workload,
    before: Prices = UNKNOWN,
    duals: Sequence[float] = (),
    *,
    known_from: int = KNOWN_FROM,
    largest: int = 0,
    cores: float = 0.0,
) -> Prices:
    """The prices for what arrives. Those of `before` stay as long as little has changed.

    `duals`: what shares of 0 to 99 percent are worth by the price maker; empty: `SHARE_PRICES` hold.
    `largest` is how many GPUs the largest nodes have, `cores` how many cores there are for each GPU; 0: not known.
    """
    if workload.arrivals < known_from:
        return before
    # A size stays until it is twice as rare.
    known = {size for size, _ in before.shares}
    sizes = sorted(size for size, part in mix_of(workload).items() if part > (RARE / 2 if size in known else RARE))
    turning = max(min(1.0, workload.turnover / TURNS_OVER), _tightness(workload, cores))
    if abs(turning - before.turning_over) * STEPS < 1.0 and 0.0 < turning < 1.0:
        turning = before.turning_over
    shares = ((size, duals[size] if size < len(duals) else price_of_share(size)) for size in sizes)
    turning_over = round(turning * STEPS) / STEPS
    whole = _whole_of(workload, largest) if largest > 1 else 0.0
    if abs(whole - before.whole) < WHOLE_STEP:
        whole = before.whole
    typical = typical_of(workload, before.typical) if turning_over else ()
    return Prices(tuple(shares), turning_over, round(whole / WHOLE_STEP) * WHOLE_STEP, typical)


def _tightness(workload: Workload, cores: float) -> float:
    """How far cores run out before GPUs do, from 0 to 1."""
    asked, gpus = workload.plain_cores, 0.0
    for cls, part in workload.classes():
        asked += part * cls.requests.get(names.CPU, 0) / 1000.0
        gpus += part * cls.price.gpus if cls.price is not None else 0.0
    if not gpus or not cores:
        return 0.0
    return min(max((asked / gpus / cores - TIGHT_FROM) / (TIGHT - TIGHT_FROM), 0.0), 1.0)


def _whole_of(workload: Workload, largest: int) -> float:
    """The part of all GPUs that pods ask for who need so many on one node."""
    asked = whole = 0.0
    for cls, part in workload.classes():
        gpus = part * cls.price.gpus if cls.price is not None else 0.0
        asked += gpus
        if cls.want is not None and cls.want.instances >= largest:
            whole += gpus
    return whole / asked if asked else 0.0


def worth_by_free(prices: Prices) -> Floats:
    """The most that can be earned from a card with g percent free, for g from 0 to 100 (an unbounded knapsack)."""
    return _worth_by_free(prices.shares)


@lru_cache(maxsize=8)
def _worth_by_free(shares: tuple[tuple[int, float], ...]) -> Floats:
    """Once for all classes, none of which may change it."""
    if not shares:
        bounds = [0, *(upto for upto, _ in SHARE_PRICES)]
        shares = tuple((bound + 1, price) for bound, (_, price) in zip(bounds, SHARE_PRICES, strict=False))
    best = np.zeros(WHOLE + 1)
    offers = [*shares, (WHOLE, 1.0)]
    for free in range(1, WHOLE + 1):
        best[free] = max([best[free - 1], *(price + best[free - size] for size, price in offers if size <= free)])
    return best
