"""Hygon: DCUs, whose driver shows them as AMD's does.

A container gets `/dev/kfd`, `/dev/mkfd` where the driver has it, and the render node of each.
"""

from __future__ import annotations

from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.vendors import kfd
from berth.vendors.devices import Found
from berth.vendors.probe import Probe
from berth.vendors.vendor import Container, Edits, Given, Vendor, accepted_of

PCI_VENDOR: Final = 0x1D94


class Hygon(Vendor):
    """DCUs of Hygon."""

    name = "hygon"
    aliases = frozenset({"dcu"})
    request_sets = accepted_of(
        names.DCU_GPU, names.KOORD_GPU, names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED
    )

    def discover(self, probe: Probe) -> Found:
        """See `Vendor`."""
        return kfd.discover(probe, self.name, PCI_VENDOR)

    def edits(self, container: Container, given: tuple[Given, ...], probe: Probe) -> Edits | Problem:
        """See `Vendor`."""
        return kfd.edits(given, probe, ("/dev/kfd", "/dev/mkfd"), optional=("/dev/mkfd",))
