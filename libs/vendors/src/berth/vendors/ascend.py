"""Huawei Ascend: NPUs as its device daemon writes them into files; whole, or as virtual NPUs of fixed sizes.

Its device plugin (volcanoType, no preset virtual devices, useAscendDocker) prepares the container from the annotations
of the bind.
"""

from __future__ import annotations

from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices.vendor_limits import Limit
from berth.vendors.vendor import WHOLE, Bind, HandOff, PciMatch, Vendor, accepted_of, given_field

DUO: Final = "Ascend-310P3-300I-DUO"
"""Two chips on a card; its plugin knows them by the family's name."""


class Ascend(Vendor):
    """NPUs of Huawei."""

    name = "huawei"
    request_sets = accepted_of(
        names.GPU_MEMORY_RATIO, names.GPU_MEMORY, names.GPU_SHARED, names.NPU_CORE, names.NPU_CPU, names.NPU_DVPP
    )
    summed = (*Vendor.summed, names.NPU_CORE, names.NPU_CPU, names.NPU_DVPP)
    keeps_whole = frozenset({names.NPU_CORE, names.NPU_CPU, names.NPU_DVPP})
    hands_off = True
    limit = Limit("huawei", with_cores=False, by_size=True)
    pci = PciMatch(vendor="19e5", but=frozenset({"1710", "1711"}))

    def hand_off(self, bind: Bind) -> HandOff | Problem:
        """See `Vendor`. A virtual NPU is named by chip and template."""
        annotations = {"predicate-time": str(bind.time_ns)}
        if bind.model == DUO:
            annotations["huawei.com/Ascend310P"] = ",".join(f"Ascend310P-{each.minor}" for each in bind.given)
        else:
            for each in bind.given:
                if not each.template and 0 < each.amounts.get(names.GPU_MEMORY_RATIO, 0) < WHOLE:
                    message = "Ascend shares an NPU by a size with a name alone: without one it is the whole chip"
                    return Problem(field=given_field(each, "extension.gpuSharedResourceTemplate"), message=message)
            chips = (f"{each.minor}-{each.template}" if each.template else str(each.minor) for each in bind.given)
            annotations[names.NPU_CORE] = ",".join(chips)
        return HandOff(annotations=annotations)
