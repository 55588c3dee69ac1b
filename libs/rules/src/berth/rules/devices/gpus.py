"""GPUs of one node with regard to their place: the topology tree where it is known, else any minors.

Without a required scope it serves exactly the requests that :func:`.allocate` serves, only with better neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from berth.rules.devices.allocate import allocate, offers_of
from berth.rules.devices.scoring import Scoring
from berth.rules.devices.slots import Grant, NoCapacity, Slot
from berth.rules.devices.topology import Ask, search, tree_of
from berth.rules.devices.want import Want


def allocate_gpus(
    slots: Sequence[Slot],
    want: Want,
    *,
    scoring: Scoring | None = None,
    preferred: Collection[int] = (),
    required: Collection[int] | None = None,
    scope: int = 0,
) -> tuple[Grant, ...] | NoCapacity:
    """As :func:`.allocate`, with the devices close together.

    ``scope`` is the level that all of them must share (``topology.SCOPES``), 0 for none. Shares of several GPUs have
    no tree rule: with a scope they are refused, without one any minors serve.
    """
    if not slots:
        return NoCapacity("Insufficient gpu devices", unresolvable=True)
    if want.shared and want.instances > 1:
        if scope:
            return NoCapacity("node(s) Unsupported Multi-Shared GPU", unresolvable=True)
        return allocate(slots, want, scoring=scoring, preferred=preferred, required=required)
    tree = tree_of(slots)
    if tree is None:
        if scope:
            return NoCapacity("node(s) missing GPU Device Topology Tree", unresolvable=True)
        return allocate(slots, want, scoring=scoring, preferred=preferred, required=required)
    offers = offers_of(slots, want, required, scoring if want.shared else None)
    points = {minor: offer.points for minor, offer in offers.items()}
    found = search(tree, Ask(want.instances, points, want.shared, preferred, scope))
    if found is None:
        return NoCapacity("Insufficient Topology Scoped GPU Devices" if scope else "Insufficient GPU Devices")
    return tuple([Grant(minor, offers[minor].filled) for minor in found.minors])
