"""Nominations that STATE alone shows and that come to nothing (E3, E7).

Nobody carries them out any more. Once nobody is in the way of one, its pod has its place at once or waits for something
else, like its quota, and would keep the place from everybody meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.cluster_writer.core.evictions import UNUSED, LetGo, are_others_leaving
from berth.rules.preemption import PATIENCE_S, leaves_by_itself
from berth.transaction.book import FINISHED_PHASES, Book


class UnusedNotes:
    """Since when each of them might have been used."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def due(self, book: Book, monotonic_s: float) -> list[LetGo]:
        """Those that were not used for too long, on the view as it is."""
        awaited = set(_awaited_plans(book))
        since: dict[tuple[str, str], float] = {}
        found: list[LetGo] = []
        for each in book.nominations:
            plan, node, seen = each.claim.plan, each.claim.node, book.seen(each.name)
            is_free = each.decision is None and plan not in awaited and not are_others_leaving({node}, {plan}, book)
            if seen is None or not is_free:
                continue
            key = (seen.uid, plan)
            since[key] = self._since.get(key, monotonic_s)
            if monotonic_s - since[key] >= PATIENCE_S:
                found.append(LetGo(seen, plan, UNUSED))
        self._since = since
        return found


def _awaited_plans(book: Book) -> Iterator[str]:
    """Those for which somebody has still to leave."""
    for name, mark in book.marks.items():
        pod = book.pods.get(name)
        if pod is not None and pod.phase not in FINISHED_PHASES and not leaves_by_itself(pod):
            yield mark.plan
