"""What docs/guarantees.md allows where the ledger has lost something, case by case, and nothing beyond.

A strict gang that was being bound when the epoch was raised may stay half bound: all its binds came before the raise,
and whoever waits was there by then. Versions of the API server say so, not clocks. What the auditor saw before that
had reached it was a difference: the ledger had lost a decision, and its pod was bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.chaos.eyes import Life
from tests.e2e.recount import Gang, Json, gang_of

from berth.bus import Bus
from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.event import AuditReported
from berth.contracts.ledger import Epoch

REACHED_S = 5.0
"""From the raise of an epoch until everybody has read of it: a reader compares with the leader every 3 s (R16)."""


class Loss(NamedTuple):
    """The newest epoch: the version of the newest pod when it was raised, and when this process read of it."""

    pods_version: int
    raised_ms: int


async def newest_loss(bus: Bus, raised_ms: Mapping[int, int]) -> Loss | None:
    """The epoch that the ledger's leader is in. `raised_ms` has the Unix time of each raise that was heard of."""
    stored = await bus.ledger().read(subjects.EPOCH_KEY)
    if stored is None or stored.deleted:
        return None
    entry = decode(stored.value, Epoch)
    return Loss(entry.pods_version, raised_ms.get(entry.epoch, 0))


def caught(loss: Loss, pods: Iterable[Json], lives: Mapping[str, Life]) -> set[Gang]:
    """Gangs of which some members were bound before the raise, and none since, while the rest was there already."""
    members: dict[Gang, list[Life | None]] = defaultdict(list)
    for pod in pods:
        gang = gang_of(pod)
        if gang is not None:
            members[gang].append(lives.get(pod["metadata"]["uid"]))
    return {gang for gang, its in members.items() if all(_is_older(life, loss.pods_version) for life in its)}


def _is_older(life: Life | None, version: int) -> bool:
    if life is None:
        return False
    return 0 < (life.bound_version if life.node else life.born_version) <= version


def was_there(said: AuditReported, loss: Loss) -> bool:
    """Whether the auditor looked before the new epoch had reached it, and found another decision than its pod's."""
    return said.promise == "I5" and said.at_ms <= loss.raised_ms + 1000 * REACHED_S
