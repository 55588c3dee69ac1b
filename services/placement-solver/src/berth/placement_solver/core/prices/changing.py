"""Whether what arrives has become another mix, and since when.

Arrivals are counted by kind, in blocks. Of all places between two blocks, the change is where the blocks before and
after differ most, by the log-likelihood ratio of one distribution against two (G-test), over how much blocks of one
side differ. It counts as a change if that could not be chance, and if it is large, for with many arrivals any
difference is significant.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Sequence
from math import sqrt
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

from berth.placement_solver.core.seams import Floats

T = TypeVar("T")

BLOCKS: Final = 10
"""So many are kept; a change that is longer ago is not found any more."""
LEAST: Final = 3
"""Of so many blocks the new mix has to be, to be known."""
BEFORE: Final = 600
"""Fewer arrivals than these are no mix that could have changed."""
REMEMBERED: Final = 4000
"""What came before the blocks counts as so many arrivals at most."""
COMMON: Final = 0.01
"""Kinds that are a smaller part count as one kind."""
BURSTS: Final = 40
"""Of so many bursts of alike pods each side has to be."""
CHANCE: Final = 5.0
"""By so many standard deviations of chance two mixes must differ."""
LARGE: Final = 0.05
"""So large a part of the arrivals must have come to be of other kinds, beyond what is chance."""
_MEAN_DEVIATION: Final = sqrt(2.0 / np.pi)
"""Of a normal distribution, in standard deviations."""


class Mix(NamedTuple):
    """How many have arrived with GPUs, by kind, and how many without."""

    kinds: Counter[Hashable]
    plain: float = 0.0


class Block(NamedTuple, Generic[T]):
    """Arrivals one after the other: their mix, and what else is known about them."""

    mix: Mix
    content: T


class Changing(Generic[T]):
    """The last blocks, and the mix of all before them."""

    def __init__(self) -> None:
        self._before = Mix(Counter())
        self._blocks: deque[Block[T]] = deque()

    def add(self, block: Block[T]) -> list[T] | None:
        """One more block has come. The contents of those that are of another mix than what came before them; None: it
        is the mix that it was."""
        self._blocks.append(block)
        since = self._changed_at()
        if since is not None:
            for _ in range(since):
                self._blocks.popleft()
            self._before = Mix(Counter())
            return [each.content for each in self._blocks]
        if len(self._blocks) > BLOCKS:
            self._remember(self._blocks.popleft().mix)
        return None

    def _remember(self, mix: Mix) -> None:
        kinds, plain = self._before
        kinds.update(mix.kinds)
        plain += mix.plain
        total = kinds.total()
        if total > REMEMBERED:
            scale = REMEMBERED / total
            kinds = Counter({kind: round(count * scale) for kind, count in kinds.items() if count * scale > 1.0})
            plain *= scale
        self._before = Mix(kinds, plain)

    def _changed_at(self) -> int | None:
        """From which block on it is another mix."""
        mixes = [self._before, *(each.mix for each in self._blocks)]
        if sum(mix.kinds.total() for mix in mixes[:-LEAST]) < BEFORE:
            return None
        with_gpus = [float(mix.kinds.total()) for mix in mixes]
        tables = (_table([mix.kinds for mix in mixes]), np.array([with_gpus, [mix.plain for mix in mixes]]))
        found = [_compared(table) for table in tables]
        ratios = np.add.reduce([each.ratio for each in found])
        # Before the block of this number, that is, after so many of `mixes`.
        since = int(ratios.argmax())
        is_known = len(self._blocks) - since >= LEAST and sum(with_gpus[: since + 1]) >= BEFORE
        if not is_known or max(float(each.moved[since]) for each in found) < LARGE:
            return None
        return since if _deviations(float(ratios[since]), sum(each.freedom for each in found)) >= CHANCE else None


class _Compared(NamedTuple):
    """For each place between two columns the log-likelihood ratio of what is before and after, in units of what it is
    between columns of one side; and which part is of other kinds beyond what chance makes of it."""

    ratio: Floats
    moved: Floats
    freedom: int


def _table(mixes: Sequence[Counter[Hashable]]) -> Floats:
    """Common kinds x mixes, and all others as one kind."""
    total: Counter[Hashable] = Counter()
    for mix in mixes:
        total.update(mix)
    least = COMMON * total.total()
    common = [kind for kind, count in total.items() if count >= least]
    table = np.array([[mix[kind] for mix in mixes] for kind in common], float).reshape(len(common), len(mixes))
    rest = np.array([mix.total() for mix in mixes], float) - table.sum(axis=0)
    return np.vstack([table, rest])


def _compared(table: Floats) -> _Compared:
    freedom, columns = len(table) - 1, table.shape[1]
    before = table.cumsum(axis=1)[:, :-1]
    after = table.sum(axis=1, keepdims=True) - before
    many_before, many_after = before.sum(axis=0), after.sum(axis=0)
    parts = table.sum(axis=1, keepdims=True) / max(table.sum(), 1.0)
    ratio = _ratio(before, parts) + _ratio(after, parts)
    # Pods come in bursts of alike ones: columns of one mix differ by more than if each came by itself.
    within = _squares(table, parts).sum() - _squares(before, parts) - _squares(after, parts)
    scatter = np.maximum(within / max(freedom * (columns - 2), 1), 1.0)
    moved = np.abs(before / np.maximum(many_before, 1.0) - after / np.maximum(many_after, 1.0)).sum(axis=0) / 2.0
    deviation = np.sqrt(scatter * (1.0 / np.maximum(many_before, 1.0) + 1.0 / np.maximum(many_after, 1.0)))
    chance = _MEAN_DEVIATION * np.sqrt(parts * (1.0 - parts)).sum() * deviation / 2.0
    bursts = np.minimum(many_before, many_after) / scatter
    return _Compared(np.where(bursts < BURSTS, 0.0, ratio / scatter), moved - chance, freedom)


def _ratio(counts: Floats, parts: Floats) -> Floats:
    """Of each column, against these parts."""
    expected = parts * counts.sum(axis=0)
    there = counts > 0.0
    logs = np.log(np.where(there, counts, 1.0) / np.where(there, expected, 1.0))
    result: Floats = 2.0 * (counts * logs).sum(axis=0)
    return result


def _squares(counts: Floats, parts: Floats) -> Floats:
    """Of each column, by how much it differs from these parts, as Pearson's chi-squared."""
    expected = np.maximum(parts * counts.sum(axis=0), 1e-9)
    result: Floats = ((counts - expected) ** 2 / expected).sum(axis=0)
    return result


def _deviations(ratio: float, freedom: int) -> float:
    """By how many standard deviations a chi-squared number of so many degrees of freedom is above what is expected
    (Wilson and Hilferty)."""
    spread = 2.0 / (9.0 * max(freedom, 1))
    return (float(np.cbrt(ratio / max(freedom, 1))) - (1.0 - spread)) / sqrt(spread)
