"""Whom a fault is in the way of: those alone who cannot see what the API shows, or carry out what is decided.

A fault of a service holds up those who read what that service makes; one of a bucket those who follow it. Whatever else
goes wrong with the bus or the API server is in everybody's way, and so is what nobody has said anything of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.simulation.faults import Fault

from berth.contracts import buckets
from berth.invariants import Reader

EVERYBODY: Final = frozenset(Reader)
NOBODY: Final[frozenset[Reader]] = frozenset()
OF_A_SERVICE: Final[Mapping[str, frozenset[Reader]]] = {
    "cluster-watcher": EVERYBODY,
    "cluster-writer": frozenset({Reader.WRITER}),
    "device-inventory": frozenset({Reader.INVENTORY}),
    "quota-manager": frozenset({Reader.QUOTA}),
    "reservation-manager": frozenset({Reader.RESERVATION}),
    "placement-solver": frozenset({Reader.SOLVER, Reader.INVENTORY, Reader.QUOTA, Reader.RESERVATION}),
    "slo-manager": NOBODY,
    "yarn-operator": NOBODY,
    "recorder": NOBODY,
    "node-qos-enforcer": NOBODY,
}
OF_A_BUCKET: Final[Mapping[str, frozenset[Reader]]] = {
    buckets.INVENTORY: frozenset({Reader.INVENTORY}),
    buckets.QUOTA: frozenset({Reader.QUOTA}),
    buckets.RESERVATION: frozenset({Reader.RESERVATION}),
    buckets.LEDGER: NOBODY,
}
"""STATE and LEASE are left out: everybody reads the one, and all who write buckets lead by the other."""
UNREAD_BY_THE_WRITER: Final = frozenset({buckets.INVENTORY, buckets.QUOTA, buckets.RESERVATION})
AT_A_SERVICE: Final = frozenset(
    {"kill", "all killed", "gone", "pause", "clock", "cut", "late reader", "deliveries stuck", "api cut"}
)
"""Faults whose target is a service."""
ELSEWHERE: Final = frozenset(
    {"group gone", "yarn away", "yarn unheard", "yarn anew", "recorder full", "recorder torn", "recorder gone"}
)
"""Faults on a node, of YARN, or of a recorder: nobody reads less for them."""
OF_ONE_BUCKET: Final = frozenset({"bucket remade", "bucket full", "leader moved", "led anew", "entry garbled"})
"""Faults whose target is a bucket, while the bus stays up; to lose more, it goes down."""


def hinders_binds(fault: Fault) -> bool:
    """Whether a fault keeps cluster-writer from carrying out what is decided or commanded.

    It reads STATE and LEDGER, and leads by a Lease of the API server. Who writes STATE late shows the same to it as to
    the solvers, which plan on no more. A target `service:bucket` is a view of a service.
    """
    service = fault.target.partition(":")[0]
    if service in OF_A_SERVICE:
        return service == "cluster-writer"
    if fault.kind in OF_ONE_BUCKET:
        return fault.target not in UNREAD_BY_THE_WRITER
    return fault.kind not in ELSEWHERE


def blinded(fault: Fault) -> frozenset[Reader]:
    """Who may not see what the API shows while this fault lasts."""
    if fault.kind in AT_A_SERVICE:
        return OF_A_SERVICE.get(fault.target, EVERYBODY)
    if fault.kind in OF_ONE_BUCKET:
        return OF_A_BUCKET.get(fault.target, EVERYBODY)
    match fault.kind:
        case "conflicts":  # of writes to objects, which cluster-writer alone does
            return OF_A_SERVICE["cluster-writer"]
        case kind if kind in ELSEWHERE:
            return NOBODY
        case _:
            return EVERYBODY
