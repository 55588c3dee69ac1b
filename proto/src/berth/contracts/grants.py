"""Grants in messages that have them in the form of 0.1 as well, as devices: written in both forms, read from either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from berth.contracts import names
from berth.contracts.ledger import MINOR_DIGITS_MAX, Allocation, DeviceGrant, Grant

DEVICE_KINDS: Final = frozenset({"gpu", "rdma", "fpga"})
"""The kinds that readers of 0.1 know."""
VF: Final = "vf"
CPU: Final = "cpu"
ZONE: Final = "zone"
OWN_ROOT: Final = "PCIeLevel"
"""The extension of a device whose holder has its PCIe root to himself, among devices of the kind."""
COUNT: Final = "count"
"""The amount of what is held whole or not at all: 1."""
PERCENTS: Final = (names.GPU_CORE, names.GPU_MEMORY_RATIO, names.RDMA, names.FPGA)
"""Amounts that are in percent of a device."""


def device(kind: str, minor: int, amounts: Mapping[str, int], extension: str = "") -> Grant:
    """The grant of a device minor."""
    return Grant(kind=kind, id=str(minor), amounts=dict(amounts), extension=extension)


def one(kind: str, name: str, extension: str = "") -> Grant:
    """The grant of something that is held whole or not at all: a virtual function, a CPU."""
    return Grant(kind=kind, id=name, amounts={COUNT: 1}, extension=extension)


def function(bus: str, kind: str, minor: int) -> Grant:
    """The grant of a virtual function of that device."""
    return one(VF, bus, f"{kind}/{minor}")


def device_of(grant: Grant) -> tuple[str, int]:
    """Kind and minor of the device of a virtual function; minor -1 where it does not say."""
    kind, _, minor = grant.extension.partition("/")
    return kind, int(minor) if minor.isdecimal() and len(minor) <= MINOR_DIGITS_MAX else -1


def percent(grant: Grant) -> int:
    """How much of its device is taken, in percent; 100 where the amounts do not say it."""
    return next((grant.amounts[name] for name in PERCENTS if name in grant.amounts), 100)


def allocation_of(amounts: Mapping[str, int], grants: Sequence[Grant]) -> Allocation:
    """What a decision writes."""
    return Allocation(amounts=dict(amounts), devices=as_devices(grants), grants=list(grants))


def granted(allocation: Allocation) -> tuple[Grant, ...]:
    """What a decision grants, in either form."""
    return all_of(allocation.grants, allocation.devices)


def all_of(grants: Sequence[Grant], devices: Sequence[DeviceGrant]) -> tuple[Grant, ...]:
    """The grants, or the devices as such where nothing says grants."""
    return tuple(grants) or tuple(device(each.kind, each.minor, each.amounts) for each in devices)


def as_devices(grants: Iterable[Grant]) -> list[DeviceGrant]:
    """The devices among grants, in the form of 0.1."""
    return [
        DeviceGrant(kind=each.kind, minor=each.minor, amounts=each.amounts)
        for each in grants
        if each.kind in DEVICE_KINDS
    ]
