"""Whether who is leaving already covers what a node needs, so that nobody else has to leave for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from berth.resources.amounts import Amounts


class Leaving(NamedTuple):
    """What a pod that leaves counts for."""

    accumulator: str
    counts: Mapping[str, int]


def still_missing(accumulator: str, release: Mapping[str, int], leaving: Iterable[Leaving]) -> Amounts:
    """What of a need nobody covers yet; empty: it is covered."""
    left = dict(release)
    for each in leaving:
        if each.accumulator == accumulator:
            for name in left:
                left[name] -= each.counts.get(name, 0)
    return {name: amount for name, amount in left.items() if amount > 0}
