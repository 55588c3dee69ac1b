"""What is taken from how many devices of one family.

Whether a request is accepted, and how it is divided over cards, is said in ``berth.rules``; here it becomes a vector
and a count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.rules.devices.columns import GPU, RATIO, Family, Vector
from berth.rules.gpu_request import per_card

MAX_DEVICES: Final = 1024


class Want(NamedTuple):
    """``amounts`` from each of ``instances`` different devices of ``family``.

    ``shared``: less than a whole device is taken from each, or memory is named in bytes.
    """

    family: Family
    amounts: Vector
    instances: int
    shared: bool = False


def gpu_want(normalised: Mapping[str, int]) -> Want | None:
    """The GPU part of a normalised request, None if there is none.

    More than 1,024 cards are cut to that many: no node has them, so the request fits nowhere either way.
    """
    if not any(GPU.vector(normalised)):
        return None
    cards = per_card(normalised)
    amounts = GPU.vector(cards.each)
    return Want(GPU, amounts, min(cards.count, MAX_DEVICES), shared=cards.shared or amounts[RATIO] == 0)
