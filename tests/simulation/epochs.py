"""Epochs that were raised for nothing: one holds up everybody, so each has to have a loss of LEDGER that explains it.

An epoch is raised in two steps: the Lease names it, and later LEDGER begins it. A loss explains what is named behind
it, until an epoch that was named behind it has begun: from then on LEDGER and Lease agree again. An epoch that was
named and never begun leaves the two in disagreement, so that the loss explains the next one as well. Losses that
leave the two in agreement are among them: they may show much later, when somebody finds a device held twice (R11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.simulation.laws import Pardon

from berth.contracts import buckets, names
from berth.invariants import Counts
from berth.simcluster.store import Event
from berth.simcluster.store.collection import DELETED
from berth.testing.simulation.kube_server import SimKube
from berth.testing.simulation.world import World

LEASE = "cluster-writer"


class Loss(NamedTuple):
    """A bucket does not hold any more what it held."""

    at_s: float
    bucket: str


class Named(NamedTuple):
    """The Lease has come to name an epoch. `holder` has written that, who came to hold it at `held_since_s`."""

    at_s: float
    epoch: int
    holder: str = ""
    held_since_s: float = 0.0


class Lease:
    """What cluster-writer's Lease has said, in order. Made before anything happens."""

    def __init__(self, kube: SimKube, world: World) -> None:
        self.named: list[Named] = []
        self._world = world
        self._holder = ""
        self._since_s = 0.0
        kube.store.listen(self._see)

    def _see(self, event: Event) -> None:
        if event.resource.plural != "leases" or event.obj.meta["name"] != LEASE or event.kind == DELETED:
            return
        now_s, holder = self._world.now, (event.obj.data.get("spec") or {}).get("holderIdentity") or ""
        if holder != self._holder:
            self._holder, self._since_s = holder, now_s
        text = (event.obj.meta.get("annotations") or {}).get(names.ANNOTATION_EPOCH, "")
        epoch = int(text) if text.isdecimal() else 0
        if epoch > (self.named[-1].epoch if self.named else 0):
            self.named.append(Named(now_s, epoch, holder, self._since_s))


def for_nothing(
    losses: Iterable[Loss], named: Sequence[Named], begun: Mapping[int, float], counts: Counts | None = None
) -> list[str]:
    """What is wrong with the epochs that were named. `begun`: when LEDGER first held each."""
    counts = counts or Counts()
    lost_s = [each.at_s for each in losses if each.bucket == buckets.LEDGER]
    found = []
    for number, each in enumerate(named):
        before = named[:number]
        if not any(one.epoch in begun and begun[one.epoch] <= each.at_s for one in before):
            continue  # there was none before: somebody has to begin
        counts.judged("epochs")
        over_s = max((one.at_s for one in before if begun.get(one.epoch, each.at_s) < each.at_s), default=0.0)
        # Of another writer's epochs it has surely read those that had begun when it came to hold the Lease.
        known = [one for one in before if begun.get(one.epoch, each.at_s) < _reads_until_s(one, each)]
        known_s = max((one.at_s for one in known), default=0.0)
        if any(over_s <= at_s <= each.at_s for at_s in lost_s):
            counts.excused("epochs", Pardon.LOSS)
        elif any(known_s <= at_s <= each.at_s for at_s in lost_s):
            counts.excused("epochs", Pardon.UNFINISHED)
        else:
            text = f"the Lease names {each.epoch} at {each.at_s:.3f} s, and LEDGER has lost nothing since the last one"
            found.append(f"L1 an epoch for nothing: {text}")
    return found


def _reads_until_s(one: Named, next_one: Named) -> float:
    return next_one.at_s if one.holder == next_one.holder else next_one.held_since_s
