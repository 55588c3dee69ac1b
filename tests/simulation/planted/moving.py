"""A quota group that moves below a limit, and a solver that does not hear of it: what is there, and what happens."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.planted.users import CARD, LOWERED_FOR_S, LOWERED_S, cards
from tests.simulation.workload import CARDS as CARD_AMOUNT
from tests.simulation.workload import NAMESPACE, QUOTA_LABEL, Change, Create, Delete, Json, Size, Timed, _quota

from berth.contracts.names import LABEL_QUOTA_PARENT
from berth.simcluster.generate.build import pod_manifest

LIMITED: Final = "limited"
OPEN: Final = "open"
STAYS: Final = "stays"
MOVES: Final = "moves"
SEEN_AFTER_S: Final = 11.0
"""By then everybody can have seen a move."""
SECOND_AFTER_S: Final = 18.0
"""By then the pods of before have found their places, or have none."""
FIRST_WITHIN_S: Final = 6.0
"""Slowly enough for both solvers to have their turn before the limit is reached."""
SECOND_WITHIN_S: Final = 3.0


def two_parents(rng: random.Random, size: Size) -> list[Json]:
    """Many cards. One parent may use twelve and another any number; each has a group that says nothing of cards.

    The groups name nothing that their parents name, so that demand changes no runtime, and with it no revision.
    """
    plain = {"cpu": "100", "memory": "400Gi"}
    return [
        *cards(rng, size),
        _quota(LIMITED, "", {}, {CARD_AMOUNT: "1200"}),
        _quota(OPEN, "", {}, {}),
        _quota(STAYS, LIMITED, plain, plain),
        _quota(MOVES, OPEN, plain, plain),
    ]


def who_moves_first(rng: random.Random, size: Size) -> list[Timed]:
    """Pods of the group that has moved take all that its new parent may use; then pods of the other group come."""
    return _moved(rng, size, MOVES, STAYS)


def who_stays_first(rng: random.Random, size: Size) -> list[Timed]:
    """Pods of the group that was there take all that the parent may use; then pods of the one that joined it come."""
    return _moved(rng, size, STAYS, MOVES)


def _moved(rng: random.Random, size: Size, first: str, second: str) -> list[Timed]:
    """A group is below the limited parent for a while. Pods come when everybody can have heard of it, and are gone
    before it moves back."""
    done: list[Timed] = []
    for cycle, at_s in enumerate(LOWERED_S):
        back_s, count = at_s + LOWERED_FOR_S, size.singles // len(LOWERED_S)
        for moment_s, parent in ((at_s, LIMITED), (back_s, OPEN)):
            below = {"metadata": {"labels": {LABEL_QUOTA_PARENT: parent}}}
            done.append(Timed(moment_s, Change("ElasticQuota", MOVES, below)))
        for number in range(count):
            is_first, name = number < count * 2 // 3, f"pod-{cycle}-{number}"
            group, after_s, within_s = (
                (first, SEEN_AFTER_S, FIRST_WITHIN_S) if is_first else (second, SECOND_AFTER_S, SECOND_WITHIN_S)
            )
            pod = pod_manifest(name, CARD, namespace=NAMESPACE, labels={QUOTA_LABEL: group})
            done.append(Timed(at_s + after_s + rng.uniform(0.0, within_s), Create(pod)))
            done.append(Timed(back_s - 2.0, Delete("Pod", name, 0)))
    return sorted(done, key=lambda timed: timed.at_s)
