"""Choices that a vendor's annotations can express: no other is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.rules.devices.columns import CORE, NPU
from berth.rules.devices.slots import NoCapacity
from berth.rules.devices.want import Want

ANY: Final = 1 << 30


class Limit(NamedTuple):
    """At most so many devices, each with so many bytes of memory, and with cores; `by_size`: a part of one is one of
    the sizes that chips are cut to."""

    devices: int = ANY
    memory: int = 0
    with_cores: bool = True
    by_size: bool = False


LIMITS: Final[Mapping[str, Limit]] = {
    "cambricon": Limit(devices=1, memory=256 << 20),
    "huawei": Limit(with_cores=False, by_size=True),
    "metax": Limit(memory=1 << 20),
}


def limit_of(vendor: str, want: Want) -> Limit | NoCapacity | None:
    """The limit where the vendor has one; NoCapacity where no device of it could keep it."""
    limit = LIMITS.get(vendor)
    if limit is None:
        return None
    if want.instances > limit.devices:
        return NoCapacity(f"node(s) of {vendor} give out {limit.devices} device(s) per pod", unresolvable=True)
    if limit.by_size and want.shared and not want.amounts[NPU]:
        return NoCapacity(f"node(s) of {vendor} share devices by sizes with a name only", unresolvable=True)
    if limit.with_cores and not want.amounts[CORE]:
        return NoCapacity(f"node(s) of {vendor} give out devices with a share of their cores only", unresolvable=True)
    return limit
