"""A share of several GPUs that is divided unevenly: as few cards as it takes, each with whole percents.

So a pod that can live with unequal parts uses what others have left of cards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.bounded_json import annotation_field
from berth.rules.devices.candidates import Candidates
from berth.rules.devices.columns import CORE, GPU, RATIO, Vector
from berth.rules.devices.memory import fill_memory, serves
from berth.rules.devices.slots import Grant, NoCapacity
from berth.rules.devices.want import MAX_DEVICES
from berth.rules.gpu_request import FAMILY, GPU_SHARED_ALIAS

UNEVEN: Final = "uneven"
EVEN: Final = "even"
WHOLE: Final = 100
"""Percent of one card."""

_FIELD: Final = annotation_field(names.ANNOTATION_GPU_SPLIT)
_NAMES: Final = frozenset({names.GPU_SHARED, GPU_SHARED_ALIAS, names.GPU_CORE, names.GPU_MEMORY_RATIO})


class Split(NamedTuple):
    """`percent` of cards in all, of memory and, if `with_core`, as much of the cores, on at most `cards` cards."""

    percent: int
    cards: int
    with_core: bool

    def evened(self, requests: Mapping[str, int]) -> dict[str, int]:
        """The requests with the least that a card gives in place of what is divided: any card can tell by it whether
        it serves at all."""
        others = {name: amount for name, amount in requests.items() if name not in FAMILY}
        core = {names.GPU_CORE: 1} if self.with_core else {}
        return {**others, **core, names.GPU_SHARED: 1, names.GPU_MEMORY_RATIO: 1}

    def amounts(self, percent: int) -> Vector:
        """What is taken of one card."""
        core = {names.GPU_CORE: percent} if self.with_core else {}
        return GPU.vector({**core, names.GPU_MEMORY_RATIO: percent})


def read_split(requests: Mapping[str, int], annotations: Mapping[str, str]) -> Split | Problem | None:
    """What is to be divided unevenly; None where nothing is."""
    word = annotations.get(names.ANNOTATION_GPU_SPLIT, "")
    asked = {name: amount for name, amount in requests.items() if name in FAMILY and amount}
    if word in ("", EVEN) or not asked:
        return None
    if word != UNEVEN:
        return Problem(field=_FIELD, message=f"{word[:80]!r} is none of {EVEN}, {UNEVEN}")
    ratio, core = asked.get(names.GPU_MEMORY_RATIO, 0), asked.get(names.GPU_CORE, 0)
    cards = asked.get(names.GPU_SHARED, asked.get(GPU_SHARED_ALIAS, 0))
    if not asked.keys() <= _NAMES or not cards or not ratio:
        wanted = f"{names.GPU_SHARED} and {names.GPU_MEMORY_RATIO}, with {names.GPU_CORE} or without"
        return Problem(field=_FIELD, message=f"{UNEVEN} needs {wanted}, and nothing else of GPUs")
    if core not in (0, ratio):
        message = f"{UNEVEN} needs as much of {names.GPU_CORE} as of {names.GPU_MEMORY_RATIO}"
        return Problem(field=_FIELD, message=message)
    if not (0 < cards <= MAX_DEVICES and 0 < ratio <= WHOLE * cards):
        return Problem(field=_FIELD, message=f"{ratio} % is more than {cards} cards have")
    return Split(ratio, cards, bool(core))


def allocate_split(found: Candidates, split: Split, scope: int = 0) -> tuple[Grant, ...] | NoCapacity:
    """The fewest cards that hold it: the emptiest give all that is free of them, the last one no more than is needed.

    Of cards that could be the last the fullest is taken, so that what is left is left in large pieces.
    """
    if scope:
        return NoCapacity("node(s) Unsupported Multi-Shared GPU", unresolvable=True)
    totals = {slot.minor: slot for slot in found.slots}
    most = {minor: _most(totals[minor].total, totals[minor].free, split) for minor in found.offers}
    order = sorted(most, key=lambda minor: (-most[minor], minor not in found.preferred, minor))
    left, chosen = split.percent, dict[int, int]()
    for minor in order[: split.cards]:
        enough = [each for each in order if each not in chosen and most[each] >= left]
        if enough:
            last = min(enough, key=lambda each: (most[each], each not in found.preferred, each))
            chosen[last] = left
            left = 0
            break
        chosen[minor] = most[minor]
        left -= most[minor]
    if left > 0:
        return NoCapacity("Insufficient gpu devices")
    grants = {grant.minor: grant for grant in found.grants(chosen)}
    return tuple(
        grants[minor]._replace(amounts=_filled(split.amounts(percent), totals[minor].total))
        for minor, percent in sorted(chosen.items())
    )


def _most(total: Vector, free: Vector, split: Split) -> int:
    """The most percent that a card can give."""
    percent = min(free[RATIO], WHOLE, free[CORE] if split.with_core else WHOLE)
    while percent and not serves(split.amounts(percent), total, free):
        percent -= 1
    return percent


def _filled(amounts: Vector, total: Vector) -> Vector:
    return fill_memory(amounts, total) or amounts
