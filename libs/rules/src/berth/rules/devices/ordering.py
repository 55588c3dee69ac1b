"""In which order candidate devices are tried.

Minors of a preferred set (those of a reservation) come first; then the higher score, then the lower minor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple


class Candidate(NamedTuple):
    """A device that may be tried; a higher score is better."""

    minor: int
    score: int = 0


def best_first(candidate: Candidate) -> tuple[int, int]:
    """Sort key: score falling, then minor rising."""
    return (-candidate.score, candidate.minor)


def by_minor(candidates: Iterable[Candidate], preferred: Collection[int] = ()) -> list[Candidate]:
    """Preferred minors first, each part from best to worst."""
    ordered = sorted(candidates, key=best_first)
    if not preferred:
        return ordered
    return [c for c in ordered if c.minor in preferred] + [c for c in ordered if c.minor not in preferred]
