"""The list of the kinds of records. A new one is a file here and a line below.

Who goes through them asks for the lists each time (`registry.GRANTS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.rules.devices.kubelet_counts import counts_shown
from berth.rules.records.borrowed import Borrowed
from berth.rules.records.container_devices import ContainerDevices
from berth.rules.records.device_allocated import DeviceAllocated
from berth.rules.records.extended_resource_spec import ExtendedResourceSpec
from berth.rules.records.gang import BindGang
from berth.rules.records.plan import BoundPlan
from berth.rules.records.quota import ChargedQuota
from berth.rules.records.reservation_allocated import ReservationAllocated
from berth.rules.records.resource_status import ResourceStatus
from berth.rules.records.seam import GrantRecord, Record

RESERVATION: Final = ReservationAllocated()
QUOTA: Final = ChargedQuota()
BORROWED: Final = Borrowed()

GRANTS: tuple[GrantRecord, ...] = (DeviceAllocated(), ResourceStatus())
"""Those that say what was granted within a node."""
RECORDS: tuple[Record, ...] = (
    *GRANTS,
    ContainerDevices(),
    ExtendedResourceSpec(),
    RESERVATION,
    BindGang(),
    BoundPlan(),
    QUOTA,
    BORROWED,
)

GRANTED_RESOURCES: Final = frozenset[str]().union(*(each.resources for each in GRANTS))
"""Resources that are given out one by one: the plain sum over a node says nothing about them."""


def given_one_by_one(allocatable: Mapping[str, int]) -> frozenset[str]:
    """Those of a node that offers this: what its kubelet counts is a plain sum there."""
    shown = counts_shown(allocatable)
    return GRANTED_RESOURCES - shown if shown else GRANTED_RESOURCES
