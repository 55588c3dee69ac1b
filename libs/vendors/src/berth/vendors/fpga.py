"""FPGAs behind the kernel's FPGA manager: `/sys/class/fpga_manager/fpga<minor>` with `name` and `state`.

Nothing is published on nodes and nothing put into containers: the protocol has neither.
"""

from __future__ import annotations

import re
from typing import Final

from berth.contracts import names
from berth.vendors import pci
from berth.vendors.devices import Found, FoundDevice, Place, Status
from berth.vendors.label_value import label_value
from berth.vendors.probe import Probe
from berth.vendors.vendor import WHOLE, Vendor

MANAGERS: Final = "/sys/class/fpga_manager"
_NAME: Final = re.compile(r"fpga(\d{1,4})")


class Fpga(Vendor):
    """FPGAs. Amounts are percent."""

    name = "fpga"
    kind = "fpga"
    request_sets = (frozenset({names.FPGA}),)
    summed = ()

    def discover(self, probe: Probe) -> Found:
        """See `Vendor`. One whose state names an error, or that is off, is unhealthy."""
        matches = (_NAME.fullmatch(name) for name in probe.names(MANAGERS) or ())
        minors = sorted(int(match[1]) for match in matches if match)
        return Found(devices=tuple(_device(probe, minor) for minor in minors))


def _device(probe: Probe, minor: int) -> FoundDevice:
    folder = f"{MANAGERS}/fpga{minor}"
    above = (pci.address(step) for step in reversed((probe.resolve(f"{folder}/device") or "").split("/")))
    bus = next(filter(None, above), "")
    state = (probe.read(f"{folder}/state") or "").strip()
    is_bad = not state or "error" in state or state == "power off"
    return FoundDevice(
        kind="fpga",
        minor=minor,
        id=bus or f"fpga{minor}",
        vendor="fpga",
        model=label_value(probe.read(f"{folder}/name") or ""),
        amounts={names.FPGA: WHOLE},
        status=Status(healthy=False, code="FpgaState", message=state[:200] or "no state") if is_bad else None,
        place=(pci.place(probe, bus) or Place(bus=bus)) if bus else None,
    )
