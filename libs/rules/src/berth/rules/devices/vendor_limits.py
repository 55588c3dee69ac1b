"""Choices that a vendor's annotations can express: no other is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.rules.devices.columns import CORE
from berth.rules.devices.slots import NoCapacity
from berth.rules.devices.want import Want

NO_CORES: Final = "node(s) whose devices are given out with a share of their cores only"


class Limit(NamedTuple):
    """At most so many devices, each with cores and with so many bytes of memory."""

    devices: int
    memory: int


LIMITS: Final[Mapping[str, Limit]] = {
    "cambricon": Limit(devices=1, memory=256 << 20),
    "metax": Limit(devices=1 << 30, memory=1 << 20),
}


def limit_of(vendor: str, want: Want) -> Limit | NoCapacity | None:
    """The limit where the vendor has one; NoCapacity where no device of it could keep it."""
    limit = LIMITS.get(vendor)
    if limit is None:
        return None
    if want.instances > limit.devices:
        return NoCapacity(f"node(s) of {vendor} give out {limit.devices} device(s) per pod", unresolvable=True)
    if not want.amounts[CORE]:
        return NoCapacity(NO_CORES, unresolvable=True)
    return limit
