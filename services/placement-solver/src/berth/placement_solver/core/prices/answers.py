"""Whether an answer of the price maker is to be believed: each way in which it is not has a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, isnan
from typing import Final, NamedTuple

from berth.placement_solver.core.prices.problem import Duals, Layout
from berth.placement_solver.core.prices.table import WHOLE

SLACK: Final = 1e-6
JUMP: Final = 0.25
"""By so much of a card a share that arrives may cost more or less than before, on average, beyond what arrives anew."""
AGREES: Final = 0.05
"""An answer that says the same as one that was a jump confirms it."""
WORTH_MAX: Final = 1e6


class Refusal(NamedTuple):
    """Why an answer is not taken: the name of what is wrong, and a sentence."""

    name: str
    message: str


def refusal_of(duals: Duals, layout: Layout) -> Refusal | None:
    """What is wrong with an answer by itself: numbers that are missing, or cannot be what they should."""
    columns = (
        ("shares", duals.shares, WHOLE, 1.0),
        ("cards", duals.cards, len(layout.kinds), WORTH_MAX),
        ("cores", duals.cores, len(layout.kinds), WORTH_MAX),
        ("quotas", duals.quotas, len(layout.charges), WORTH_MAX),
        ("short", duals.short, len(layout.classes), WORTH_MAX),
    )
    for name, values, number, most in columns:
        if (found := column_refusal(name, values, number, most)) is not None:
            return found
    if max(duals.shares) <= 0.0 and layout.arriving:
        return Refusal("worthless", "shares arrive, and none is worth anything")
    return None


def column_refusal(name: str, values: Sequence[float], number: int, most: float = 1.0) -> Refusal | None:
    """What is wrong with so many numbers from 0 to `most`."""
    if len(values) != number:
        return Refusal("malformed", f"{name}: {len(values)} numbers instead of {number}")
    for at, value in enumerate(values):
        if isnan(value):
            return Refusal("nan", f"{name}[{at}] is no number")
        if value < -SLACK:
            return Refusal("negative", f"{name}[{at}] is {value:g}")
        if not isfinite(value) or value > most + SLACK:
            return Refusal("excessive", f"{name}[{at}] is {value:g}, more than {most:g}")
    return None


def jump_of(
    new: Sequence[float], before: Sequence[float], arriving: Mapping[int, float], arrived: Mapping[int, float]
) -> Refusal | None:
    """Whether prices of shares have moved by far more than what arrives.

    `arriving` says which part of shares each size is, `arrived` says it of when `before` was taken.
    """
    change = distance(new, before, arriving)
    moved = mix_moved(arriving, arrived)
    if change <= JUMP + moved:
        return None
    return Refusal(
        "jump",
        f"shares that arrive would cost {change:.2f} of a card more or less on average, and {moved:.2f} of them have"
        " come to be of other sizes",
    )


def distance(new: Sequence[float], before: Sequence[float], arriving: Mapping[int, float]) -> float:
    """By how much a share that arrives costs more or less, on average, as a part of a card."""
    return sum(part * abs(new[size] - before[size]) for size, part in arriving.items())


def mix_moved(mix: Mapping[int, float], before: Mapping[int, float]) -> float:
    """Which part of the shares has come to be of other sizes."""
    return sum(abs(mix.get(size, 0.0) - before.get(size, 0.0)) for size in mix.keys() | before.keys()) / 2
