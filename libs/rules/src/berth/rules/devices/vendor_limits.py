"""Choices that a vendor's annotations can express: no other is made. Which vendor has which is said by its file in
`berth.vendors`."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.rules.devices.columns import CORE, NPU
from berth.rules.devices.slots import NoCapacity
from berth.rules.devices.want import Want

NO_CORES: Final = "node(s) whose devices are given out with a share of their cores only"
ANY: Final = 1 << 30
"""No limit."""


class Limit(NamedTuple):
    """Of this vendor at most so many devices, each with so many bytes of memory, and with cores; `by_size`: a part of
    one is one of the sizes that chips are cut to."""

    vendor: str
    devices: int = ANY
    memory: int = 0
    with_cores: bool = True
    by_size: bool = False


def beyond(limit: Limit, want: Want) -> NoCapacity | None:
    """Why no device could keep the limit, whatever is free; None: some may."""
    if want.instances > limit.devices:
        return NoCapacity(f"node(s) of {limit.vendor} give out {limit.devices} device(s) per pod", unresolvable=True)
    if limit.by_size and want.shared and not want.amounts[NPU]:
        return NoCapacity(f"node(s) of {limit.vendor} share devices by sizes with a name only", unresolvable=True)
    if limit.with_cores and not want.amounts[CORE]:
        return NoCapacity(NO_CORES, unresolvable=True)
    return None
