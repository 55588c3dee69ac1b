"""What is taken from how many devices of one family.

Whether a request is accepted, and how it is divided over cards, is said in ``berth.rules.device_request``; here it
becomes a vector and a count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from berth.rules.devices.columns import FAMILIES, GPU, RATIO, Family, Vector
from berth.rules.devices.hints import APPLY_FOR_ALL, DEVICE_LEVEL, NO_HINT, REQUESTS_AS_COUNT, Hint
from berth.rules.devices.slots import NoCapacity, Slot
from berth.rules.gpu_request import per_card

MAX_DEVICES: Final = 1024
WHOLE: Final = 100
"""Percent of one device."""


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


def want_on(
    kind: str, normalised: Mapping[str, int], slots: Sequence[Slot], hint: Hint = NO_HINT
) -> Want | NoCapacity | None:
    """What is taken of one family on a node with these devices; None when nothing of it is asked for.

    More than 100 percent is so many whole devices. Up to that the hint says what the figure means: that much of every
    matching device, so many devices, or that much of one. Every device counts that the node has, also one that is not
    healthy; one that is held and not there any more (without a place, labels and functions) does not.
    """
    family = FAMILIES[kind]
    if family is GPU:
        return gpu_want(normalised)
    (amount,) = family.vector(normalised)
    if not amount:
        return None
    if amount > WHOLE:
        return Want(family, (WHOLE,), min(amount // WHOLE, MAX_DEVICES))
    if hint.strategy == APPLY_FOR_ALL:
        there = [slot for slot in slots if any(slot.total) or slot.pcie or slot.labels or slot.functions]
        if hint.selector is not None:
            there = [slot for slot in there if hint.selector(dict(slot.labels))]
        if not there:
            return NoCapacity(f"Insufficient {kind} devices", unresolvable=True)
        return Want(family, (amount,), len(there))
    if hint.strategy == REQUESTS_AS_COUNT:
        return Want(family, (WHOLE if hint.exclusive == DEVICE_LEVEL else 1,), amount)
    return Want(family, (amount,), 1)
