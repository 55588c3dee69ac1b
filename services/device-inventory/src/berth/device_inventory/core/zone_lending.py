"""What the NUMA nodes of a node lend, as its topology is to show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from berth.contracts.names import LENT_BY_ZONE
from berth.contracts.slo import NodeOffer
from berth.contracts.state import Node
from berth.contracts.topology import NodeTopology
from berth.resources.amounts import Amounts

Lent = Mapping[int, Mapping[str, int]]
"""By NUMA node and resource."""


class ZonesSaid(NamedTuple):
    """What SLO says of it; `zones` None: what is shown stays as it is. `uid` is the node's."""

    uid: str
    zones: Lent | None


def zones_said(offer: NodeOffer) -> ZonesSaid:
    """What of an offer concerns the topology."""
    if offer.zones_written is None:
        return ZonesSaid(offer.uid, None)
    of_each = {
        each.zone: {name: each.amounts[name] for name in LENT_BY_ZONE if name in each.amounts}
        for each in offer.zones_written
    }
    return ZonesSaid(offer.uid, of_each)


def zones_lent(said: ZonesSaid | None, node: Node, shown: NodeTopology | None) -> Lent:
    """What the topology is to show.

    Where nobody says it (SLO was lost, or another manager sees to that), what is shown stays for as long as the node
    shows that it lends.

    Args:
        said: what SLO says of the node; None: nothing.
        node: the node.
        shown: what its topology shows now; None: it has none.
    """
    if said is not None and said.uid == node.uid and said.zones is not None:
        return said.zones
    if shown is None or not any(node.allocatable.get(name) for name in LENT_BY_ZONE):
        return {}
    found = {each.zone: _of(each.amounts) for each in shown.zones}
    return {zone: amounts for zone, amounts in found.items() if amounts}


def _of(amounts: Mapping[str, int]) -> Amounts:
    return {name: amounts[name] for name in LENT_BY_ZONE if name in amounts}
