"""Cambricon: MLUs as its device daemon writes them into files; one MLU, in part or whole, for a pod.

Its device plugin (DSMLU) takes one pod of a node at a time and prepares the container from the annotations of the bind.
"""

from __future__ import annotations

from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices.vendor_limits import Limit
from berth.vendors.vendor import Bind, HandOff, PciMatch, Vendor, accepted_of, given_field

SLICE: Final = 256 * 1024**2
"""Bytes of the unit that memory is handed out in."""


class Cambricon(Vendor):
    """MLUs of Cambricon."""

    name = "cambricon"
    request_sets = accepted_of(
        names.KOORD_GPU, names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED
    )
    hands_off = True
    limit = Limit("cambricon", devices=1, memory=256 << 20)
    pci = PciMatch(vendor="cabc")

    def hand_off(self, bind: Bind) -> HandOff | Problem:
        """See `Vendor`. The misspelt name is the protocol's."""
        first, *others = bind.given
        if others:
            return Problem(
                field=given_field(others[0], "minor"), message="Cambricon hands out one MLU to a pod, no more"
            )
        core, memory = first.amounts.get(names.GPU_CORE, 0), first.amounts.get(names.GPU_MEMORY, 0)
        if core <= 0:
            return Problem(field=given_field(first, f"resources[{names.GPU_CORE}]"), message="Cambricon needs it")
        if memory < SLICE:
            return Problem(
                field=given_field(first, f"resources[{names.GPU_MEMORY}]"), message="Cambricon needs at least 256Mi"
            )
        return HandOff(
            annotations={
                "CAMBRICON_DSMLU_ASSIGHED": "false",
                "CAMBRICON_DSMLU_PROFILE": f"{first.minor}_{core}_{memory // SLICE}",
            },
            lock="cambricon.com/dsmlu.lock",
        )
