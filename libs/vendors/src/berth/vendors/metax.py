"""MetaX: GPUs as its device daemon writes them into files.

Its device plugin (sgpu) takes one pod of a node at a time and prepares the container from the annotation of the bind.
"""

from __future__ import annotations

from typing import Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices.vendor_limits import Limit
from berth.vendors.vendor import Bind, HandOff, PciMatch, Vendor, accepted_of, given_field

MEBIBYTE: Final = 1024**2


class Metax(Vendor):
    """GPUs of MetaX."""

    name = "metax"
    request_sets = accepted_of(
        names.KOORD_GPU, names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED
    )
    hands_off = True
    limit = Limit("metax", memory=MEBIBYTE)
    pci = PciMatch(vendor="9999")

    def hand_off(self, bind: Bind) -> HandOff | Problem:
        """See `Vendor`. One list for each container of the pod; the pod has one."""
        entries = []
        for each in bind.given:
            core, memory = each.amounts.get(names.GPU_CORE, 0), each.amounts.get(names.GPU_MEMORY, 0)
            if not each.id:
                return Problem(field=given_field(each, "id"), message="MetaX needs it")
            if core <= 0:
                return Problem(field=given_field(each, f"resources[{names.GPU_CORE}]"), message="MetaX needs it")
            if memory < MEBIBYTE:
                return Problem(
                    field=given_field(each, f"resources[{names.GPU_MEMORY}]"), message="MetaX needs at least 1Mi"
                )
            entries.append({"uuid": each.id, "compute": core, "vRam": memory // MEBIBYTE})
        text = msgspec.json.encode([entries]).decode()
        return HandOff(annotations={"metax-tech.com/gpu-devices-allocated": text}, lock="hami.io/mutex.lock")
