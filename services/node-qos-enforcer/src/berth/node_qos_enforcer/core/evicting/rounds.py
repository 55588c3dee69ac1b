"""One round: what several features want to have released, and who leaves for it.

Features share their victims: a pod that leaves counts for each of them, so that nobody leaves twice over. Who is
leaving already counts as well. What is counted is kept apart by accumulator, since what a pod used is no request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from berth.resources.amounts import Amounts

Released = Mapping[str, Mapping[str, int]]
"""By accumulator and resource."""


class Task(NamedTuple):
    """What one feature wants: amounts to release, its victims in turn, and what each pod counts for (None: nothing).
    `name` is the feature's."""

    accumulator: str
    to_release: Amounts
    victims: Sequence[str]
    counts: Mapping[str, Amounts | None]
    name: str = ""


@dataclass(frozen=True)
class Round:
    """What came of it. `newly`: somebody leaves who did not before, so the next round has to wait."""

    leaving: list[str]
    released: dict[str, Amounts] = field(default_factory=dict)
    newly: bool = False


def missing(accumulator: str, to_release: Mapping[str, int] | None, released: Released | None) -> Amounts:
    """What of a task is not covered yet; empty: it is done."""
    found = (released or {}).get(accumulator, {})
    return {
        name: amount - found.get(name, 0)
        for name, amount in (to_release or {}).items()
        if amount - found.get(name, 0) > 0
    }


def run_round(
    tasks: Sequence[Task], *, is_leaving: Callable[[str], bool], evict: Callable[[Task, str, Amounts], bool]
) -> Round:
    """Have pods leave until each task is covered, or has no victim left.

    Args:
        tasks: in their order.
        is_leaving: whether a pod is on its way out already; it counts, and nobody is asked.
        evict: has a pod leave for a task, of which so much is missing; False: it stays, and the next one has its turn.
    """
    leaving: list[str] = []
    released: dict[str, Amounts] = {}
    handled: set[str] = set()
    for task in tasks:
        for pod in task.victims:
            lacks = missing(task.accumulator, task.to_release, released)
            if not lacks:
                break
            if pod in handled:
                continue
            handled.add(pod)
            if not is_leaving(pod):
                if not evict(task, pod, lacks):
                    continue
                leaving.append(pod)
            for accumulator, amounts in counts_of(pod, tasks).items():
                sums = released.setdefault(accumulator, {})
                for name, amount in amounts.items():
                    sums[name] = sums.get(name, 0) + amount
    return Round(leaving, released, bool(leaving))


def counts_of(pod: str, tasks: Iterable[Task]) -> dict[str, Amounts]:
    """What a pod counts for when it leaves: by accumulator and resource the most that a task says."""
    found: dict[str, Amounts] = {}
    for task in tasks:
        counts = task.counts.get(pod)
        if counts is None:
            continue
        most = found.setdefault(task.accumulator, {})
        for name, amount in counts.items():
            most[name] = max(most.get(name, 0), amount)
    return found
