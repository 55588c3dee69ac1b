"""Which amounts of its NUMA nodes a node's topology is to show, and whether that is worth a write.

The same test as that of the node's status, by NUMA node and resource. device-inventory writes the object, and keeps it
at what was said last, so that this is what is compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.names import CPU, LENT_BY_ZONE, MEMORY
from berth.contracts.slo import NodeOffer, ZoneOffer
from berth.resources.amounts import Amounts
from berth.rules.node_strategies.colocation import Colocation
from berth.slo_manager.core.offers.deciding import NOT_CONFIGURED
from berth.slo_manager.core.offers.difference import differs, differs_at_all
from berth.slo_manager.core.offers.lacking import Rank

_OF: Final = {name: MEMORY if name.endswith(MEMORY) else CPU for name in LENT_BY_ZONE}


class ZonesLacking(NamedTuple):
    """What is to be shown. `rank`: falls go first, then what changes the largest part of the node."""

    zones: list[ZoneOffer]
    rank: Rank


def zones_lacking(
    offer: NodeOffer, shown: Mapping[int, Amounts], capacity: Mapping[str, int], strategy: Colocation, now_s: float
) -> ZonesLacking | None:
    """What the topology is to be made to show; None: nothing else than before.

    Args:
        offer: what is lent.
        shown: what the topology shows; it counts where nobody has said yet what it is to show.
        capacity: the node's.
        strategy: when a difference is worth a write.
        now_s: unix time.
    """
    before = dict(shown) if offer.zones_written is None else _by_zone(offer.zones_written)
    wanted = _wanted(offer, before)
    changed, is_large, changes = False, before.keys() != wanted.keys(), [0.0]
    for zone in sorted(before.keys() | wanted.keys()):
        old, new = before.get(zone, {}), wanted.get(zone, {})
        changed = changed or differs_at_all(old, new, LENT_BY_ZONE)
        for name in LENT_BY_ZONE:
            is_large = is_large or differs(old, new, name, strategy.resource_diff_threshold)
            changes.append((new.get(name, 0) - old.get(name, 0)) / max(capacity.get(_OF[name], 0), 1))
    is_old = now_s - offer.zones_written_at > strategy.update_time_threshold_seconds
    if not is_large and not (changed and is_old):
        return None
    zones = [ZoneOffer(zone=zone, amounts=amounts) for zone, amounts in sorted(wanted.items())]
    return ZonesLacking(zones, (float(min(changes) >= 0), -max(map(abs, changes))))


def _wanted(offer: NodeOffer, before: Mapping[int, Amounts]) -> dict[int, Amounts]:
    """A NUMA node that lends nothing shows 0, as long as somebody lends at all."""
    if offer.offers:
        return _by_zone(offer.zones)
    if offer.reason == NOT_CONFIGURED:
        return {}
    return {zone: dict.fromkeys(LENT_BY_ZONE, 0) for zone in before}


def _by_zone(zones: Iterable[ZoneOffer]) -> dict[int, Amounts]:
    return {each.zone: dict(each.amounts) for each in zones}
