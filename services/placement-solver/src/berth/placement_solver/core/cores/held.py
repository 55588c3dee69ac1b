"""Who holds CPUs of his own, or a share of a NUMA node, on one node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from berth.contracts.grants import CPU, ZONE
from berth.contracts.ledger import Grant
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.layout import CpuLayout
from berth.rules.numa.charges import Held, ZoneAmounts, cpus_by_zone
from berth.rules.records.resource_status import KINDS, cpus_of, zones_of


class Holder(NamedTuple):
    """All that one holder takes of the node, and what of it lies where. `exclusive` is its exclusive policy."""

    amounts: Mapping[str, int]
    cpus: frozenset[int] = NO_CPUS
    zones: ZoneAmounts = {}
    exclusive: str = ""

    @property
    def held(self) -> Held:
        """As the rules of NUMA nodes have it."""
        return Held(self.amounts, self.cpus, self.zones)


def holder_of(amounts: Mapping[str, int], grants: Iterable[Grant]) -> Holder | None:
    """The holder of these grants; None: he was granted nothing of the kind, and is one of many that share."""
    mine = [grant for grant in grants if grant.kind in KINDS]
    if not mine:
        return None
    exclusive = next((grant.extension for grant in mine if grant.kind == CPU and grant.extension), "")
    zones = zones_of(mine) if any(grant.kind == ZONE for grant in mine) else {}
    return Holder(dict(amounts), cpus_of(mine), zones, exclusive)


def rivals_of(holders: Iterable[Holder], exclusive: str) -> frozenset[int]:
    """The CPUs of those with the same exclusive policy."""
    if not exclusive:
        return NO_CPUS
    return NO_CPUS.union(*(each.cpus for each in holders if each.exclusive == exclusive))


def holdings(holders: Iterable[Holder], layout: CpuLayout | None) -> list[Collection[int]]:
    """Which NUMA nodes each holder holds: by what it was given of them, and by where its CPUs lie."""
    return [{*each.zones, *cpus_by_zone(each.cpus, layout)} for each in holders]
