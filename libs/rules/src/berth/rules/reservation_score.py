"""Which of several Reservations a pod takes: the smallest order first, then the one that becomes fullest, then by name.

Across nodes the one with the smallest order of all goes first; the others compare by the score of what they would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from berth.rules.numbers import parse_integer

SCORE_MAX: Final = 100
PREFERRED: Final = 1000
"""The raw score of the node that has the Reservation of the smallest order."""


class Rated(NamedTuple):
    """A Reservation that would do. `order` 0: none is given."""

    name: str
    node: str
    order: int
    score: int


def order_of(text: str) -> int:
    """The order label as a number; 0 for none, which is also what cannot be read."""
    return parse_integer(text) or 0


def reservation_score(request: Mapping[str, int], allocatable: Mapping[str, int], allocated: Mapping[str, int]) -> int:
    """How full the Reservation becomes with this pod, 0 to 100: the mean over all that it holds. What does not fit
    counts 0."""
    held = {name: amount for name, amount in allocatable.items() if amount > 0}
    if not held or not any(request.values()):
        return 0
    total = 0
    for name, amount in held.items():
        used = request.get(name, 0) + allocated.get(name, 0)
        if used <= amount:
            total += SCORE_MAX * used // amount
    return total // len(held)


def in_order(rated: Sequence[Rated]) -> list[Rated]:
    """Reservations of one node, best first; of two with the same order the one that is listed first."""
    return sorted(rated, key=lambda each: (0, each.order, "") if each.order else (1, -each.score, each.name))


def nominate(rated: Sequence[Rated]) -> Rated | None:
    """The one that a pod takes on a node."""
    return in_order(rated)[0] if rated else None


def normalised(raw: Mapping[str, int]) -> dict[str, int]:
    """Scores of nodes, scaled so that the best one has 100."""
    most = max(raw.values(), default=0)
    return {node: _scaled(score, most) for node, score in raw.items()}


def _scaled(score: int, most: int) -> int:
    return SCORE_MAX * score // most if most > 0 else 0


def preferred(rated: Iterable[Rated]) -> Iterator[Rated]:
    """All of them, best first: of each node the next one that a pod would take there, from the best node on."""
    by_node: dict[str, list[Rated]] = {}
    for each in rated:
        by_node.setdefault(each.node, []).append(each)
    queues = {node: in_order(found)[::-1] for node, found in by_node.items()}
    smallest = min((each.order for found in queues.values() for each in found if each.order), default=None)

    def raw(each: Rated) -> int:
        return PREFERRED if smallest is not None and each.order == smallest else each.score

    first = {node: raw(queue[-1]) for node, queue in queues.items()}
    most = max(first.values(), default=0)
    scores = normalised(first)
    heap = [(-scores[node], queue[-1].name, node) for node, queue in queues.items()]
    heapify(heap)
    while heap:
        node = heap[0][2]
        yield queues[node].pop()
        if queue := queues[node]:
            heapreplace(heap, (-_scaled(raw(queue[-1]), most), queue[-1].name, node))
        else:
            heappop(heap)
