"""In which order candidate devices are tried.

Minors of a preferred set (those of a reservation) come first; then the higher score, then the lower minor. Devices
that are to lie near others take turns by place: the best of each place, then the second of each, then all others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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


def by_place(
    candidates: Iterable[Candidate],
    places: Mapping[int, str],
    near: Collection[str],
    preferred: Collection[int] = (),
) -> list[Candidate]:
    """Preferred minors first, then those at the places of `near` in turns, then the others.

    `places` says where a minor is; one that is not there is nowhere.
    """
    turns: dict[str, int] = {}
    ranked: list[tuple[int, int, Candidate]] = []
    for candidate in sorted(candidates, key=best_first):
        place = places.get(candidate.minor, "")
        is_near = place in near
        turn = turns.get(place, 0) if is_near else 0
        if is_near:
            turns[place] = turn + 1
        ranked.append((0 if is_near else 1, turn, candidate))
    ranked.sort(key=lambda each: (each[2].minor not in preferred, each[0], each[1], best_first(each[2])))
    return [candidate for _, _, candidate in ranked]
