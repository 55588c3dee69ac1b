"""Kunlunxin: XPUs as its device daemon writes them into files.

A container gets `/dev/xpu<minor>` of each and `/dev/xpuctrl`, which its documents mount by hand.
"""

from __future__ import annotations

from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.vendors.probe import Probe
from berth.vendors.vendor import Container, DeviceNode, Edits, Given, PciMatch, Vendor, accepted_of, given_field

CONTROL: Final = "/dev/xpuctrl"


class Kunlun(Vendor):
    """XPUs of Kunlunxin. The API's own value of the vendor label is `baidu`, its device daemon writes `kunlun`."""

    name = "kunlun"
    aliases = frozenset({"baidu", "kunlunxin"})
    request_sets = accepted_of(
        names.KOORD_GPU, names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED
    )
    pci = PciMatch(vendor="1d22")

    def edits(self, container: Container, given: tuple[Given, ...], probe: Probe) -> Edits | Problem:
        """See `Vendor`."""
        nodes = []
        for path, field in [(CONTROL, CONTROL), *((f"/dev/xpu{d.minor}", given_field(d, "minor")) for d in given)]:
            numbers = probe.device(path)
            if numbers is None:
                return Problem(field=field, message=f"the device file {path} is not there")
            nodes.append(DeviceNode(path=path, major=numbers.major, minor=numbers.minor))
        return Edits(nodes=tuple(nodes))
