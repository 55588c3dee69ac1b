"""The PCI tree under /sys, read.

A device's link leads through the root complex (`pci0000:3a`) and the ports and switches below it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from berth.rules.numbers import parse_integer
from berth.vendors.devices import Place
from berth.vendors.probe import Probe

DEVICES: Final = "/sys/bus/pci/devices"
DRIVERS: Final = "/sys/bus/pci/drivers"
_ADDRESS: Final = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_ROOT: Final = re.compile(r"pci[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}")
NUMA_MAX: Final = 1_023


@dataclass(frozen=True, slots=True, kw_only=True)
class PciFunction:
    """A function: its address, and vendor, product and class as lower-case hexadecimal without `0x`."""

    address: str
    vendor: str
    product: str
    kind: str


def address(text: str) -> str:
    """A PCI address as /sys writes it; empty when the text is none. NVML writes eight digits of domain, in capitals."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return ""
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}".lower()


def root_complex(path: str) -> str:
    """The root complex in a resolved path; empty when there is none."""
    match = _ROOT.search(path)
    return match[0] if match else ""


def numa_node(text: str | None) -> int | None:
    """The NUMA node in a file's text: -1, which the kernel writes for machines with one, is 0; None: unknown."""
    number = parse_integer(text.strip()) if text is not None else None
    if number is None or not -1 <= number <= NUMA_MAX:
        return None
    return max(number, 0)


def place(probe: Probe, bus: str) -> Place | None:
    """Where a function sits; None unless zone and root complex are both known."""
    folder = f"{DEVICES}/{bus}"
    path = probe.resolve(folder) or ""
    zone, root = numa_node(probe.read(f"{folder}/numa_node")), root_complex(path)
    if zone is None or not root:
        return None
    above = path.partition(root + "/")[2].split("/")[:-1]
    return Place(numa_node=zone, pcie=root, bus=bus, switches=tuple(filter(None, map(address, above))))


def functions(probe: Probe) -> list[PciFunction]:
    """Every function, by address; what is no address, or has no vendor, is left out."""
    found = []
    for name in sorted(probe.names(DEVICES) or ()):
        if not address(name):
            continue
        vendor, product, kind = (
            _hexadecimal(probe, f"{DEVICES}/{name}/{file}") for file in ("vendor", "device", "class")
        )
        if vendor:
            found.append(PciFunction(address=name, vendor=vendor, product=product, kind=kind))
    return found


def bound_to(probe: Probe, driver: str) -> list[str]:
    """The addresses of the functions that a driver has, in order."""
    return sorted(filter(None, map(address, probe.names(f"{DRIVERS}/{driver}") or ())))


def _hexadecimal(probe: Probe, path: str) -> str:
    return (probe.read(path) or "").strip().lower().removeprefix("0x")
