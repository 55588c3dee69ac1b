"""In which order candidate devices are tried.

Minors of a preferred set (those of a reservation) come first; then the higher score, then the lower minor. With
preferred PCIe switches (those of GPUs chosen before, when a NIC must sit beside them) the devices on them come first,
one of each switch in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import zip_longest
from typing import NamedTuple


class Candidate(NamedTuple):
    """A device that may be tried; a higher score is better."""

    minor: int
    score: int = 0
    pcie: str = ""


def best_first(candidate: Candidate) -> tuple[int, int]:
    """Sort key: score falling, then minor rising."""
    return (-candidate.score, candidate.minor)


def by_minor(candidates: Iterable[Candidate], preferred: Collection[int] = ()) -> list[Candidate]:
    """Preferred minors first, each part from best to worst."""
    ordered = sorted(candidates, key=best_first)
    if not preferred:
        return ordered
    return [c for c in ordered if c.minor in preferred] + [c for c in ordered if c.minor not in preferred]


def by_pcie(candidates: Iterable[Candidate], preferred: Collection[str] = ()) -> list[Candidate]:
    """The best of each preferred switch, then the second of each, and so on; devices elsewhere last."""
    near: dict[str, list[Candidate]] = {}
    far: list[Candidate] = []
    for candidate in sorted(candidates, key=best_first):
        if candidate.pcie and candidate.pcie in preferred:
            near.setdefault(candidate.pcie, []).append(candidate)
        else:
            far.append(candidate)
    turns = zip_longest(*near.values())
    return [c for turn in turns for c in sorted((c for c in turn if c is not None), key=best_first)] + far
