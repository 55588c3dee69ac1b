"""What nodes have that runs short, as sums.

Cards are cut by share: for each share size s that is asked for, a card with p percent free has floor(p / s) pieces of
that size, and a share of t percent uses floor(t / s) of them. That holds of every way to cut cards, since
floor(t / s) summed over what lies on a card is at most floor(p / s).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Percents: TypeAlias = npt.NDArray[np.int16]

SIZES_MAX: Final = 8
"""Share sizes by which cards are cut, the largest first."""
WAYS_MAX: Final = 3_000
"""Ways to cut cards, of all nodes."""


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


class Cuts(NamedTuple):
    """The ways to cut the cards of one group into shares of `sizes`: of so many cards that are alike, each way as how
    many shares of each size there are."""

    group: int
    sizes: list[int]
    ways: list[tuple[int, Ints]]


def cuts_of(cards: Ints, share: Ints, percent: Percents, most: Ints) -> list[Cuts]:
    """Of nodes on which shares of several sizes may lie: with one size the pieces say all. None at all where there are
    too many ways."""
    found: list[Cuts] = []
    number = 0
    for node in range(most.shape[1]):
        sizes = sorted({int(each) for each in share[(most[:, node] > 0) & (cards > 0)]}, reverse=True)
        if len(sizes) < 2:
            continue
        alike = Counter(int(each) for each in percent[:, node] if each >= sizes[-1])
        ways = [(count, np.array(_ways(tuple(sizes), free), np.int64)) for free, count in sorted(alike.items())]
        number += sum(len(each) for _, each in ways)
        if number > WAYS_MAX:
            return []
        found.append(Cuts(node, sizes, ways))
    return found


@cache
def _ways(sizes: tuple[int, ...], free: int) -> list[list[int]]:
    """How many shares of each size fill a card with so much free, so that no other one fits."""
    if len(sizes) == 1:
        return [[free // sizes[0]]]
    found = []
    for number in range(free // sizes[0], -1, -1):
        found += [[number, *rest] for rest in _ways(sizes[1:], free - number * sizes[0])]
        if len(found) > WAYS_MAX:
            break
    # What leaves room for one more of a larger size is part of another way.
    return [each for each in found if free - sum(a * b for a, b in zip(each, sizes, strict=True)) < sizes[-1]]


def pieces(percent: Percents, size: int) -> Ints:
    """How many shares of a size each node has room for."""
    found: Ints = (percent // size).sum(axis=0, dtype=np.int64)
    return found


def scarce(most: Ints, supplies: Iterable[Supply]) -> list[Supply]:
    """Those of which more may be asked than is there."""
    return [each for each in supplies if each.takes.any() and (each.takes @ most > each.has).any()]
