"""What nodes have that runs short, as sums.

Cards are cut by share: for each share size s that is asked for, a card with p percent free has floor(p / s) pieces of
that size, and a share of t percent uses floor(t / s) of them. That holds of every way to cut cards, since
floor(t / s) summed over what lies on a card is at most floor(p / s).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Percents: TypeAlias = npt.NDArray[np.int16]

SIZES_MAX: Final = 8
"""Share sizes by which cards are cut, the largest first."""


class Supply(NamedTuple):
    """Something that nodes have: `takes[i]` of it a pod of item i, `has[g]` the nodes of a group together."""

    takes: Ints
    has: Ints


class Groups(NamedTuple):
    """`most[i][g]`: so many pods of an item a group takes at most, were there no others."""

    most: Ints
    supplies: list[Supply]


def supplies_of_cards(cards: Ints, share: Ints, percent: Percents) -> Iterator[Supply]:
    """Of items that take `share[i]` percent of each of `cards[i]` cards, where `percent` is free: cards x nodes."""
    sizes = sorted({int(each) for each in share if each}, reverse=True)[:SIZES_MAX]
    if sizes:
        yield Supply(cards * share, percent.sum(axis=0, dtype=np.int64))
    for size in sizes:
        yield Supply(cards * (share // size), pieces(percent, size))


def pieces(percent: Percents, size: int) -> Ints:
    """How many shares of a size each node has room for."""
    found: Ints = (percent // size).sum(axis=0, dtype=np.int64)
    return found


def scarce(most: Ints, supplies: Iterator[Supply]) -> list[Supply]:
    """Those of which more may be asked than is there."""
    return [each for each in supplies if each.takes.any() and (each.takes @ most > each.has).any()]
