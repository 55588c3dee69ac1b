"""Prices, as grounds tell them."""

from __future__ import annotations

import numpy as np

from berth.contracts.round import Ground
from berth.placement_solver.core.prices.stranding import Typical
from berth.placement_solver.core.prices.table import Prices
from berth.placement_solver.core.seams import Floats
from berth.recording.grounds import unpack


def prices_in(ground: Ground) -> tuple[Prices, Floats]:
    """The prices, and what is scarce of each node in the order of the ground. Raises ValueError where the second cannot
    be read."""
    shares = tuple(zip(ground.share_sizes, ground.share_prices, strict=True))
    scarcity = np.zeros(0)
    if ground.scarcity:
        places = np.frombuffer(unpack(ground.scarcity), np.uint8)
        scarcity = np.array(ground.scarcities)[places]
    typical = tuple(Typical(each.cpu, each.percent, each.cards, each.part) for each in ground.arriving)
    return Prices(shares, ground.turning_over, ground.whole, typical), scarcity
