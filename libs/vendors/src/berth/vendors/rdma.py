"""RDMA network interfaces and their virtual functions, as /sys shows them.

A container gets the connection manager's device file and the verbs device of each function that it was given.
"""

from __future__ import annotations

import re
from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.numbers import parse_integer
from berth.vendors import pci
from berth.vendors.devices import Found, FoundDevice, Place, Status
from berth.vendors.probe import Probe
from berth.vendors.vendor import WHOLE, Container, DeviceNode, Edits, Given, Vendor, given_field

NETWORK_CLASS: Final = "02"
CONNECTION_MANAGER: Final = "/dev/infiniband/rdma_cm"
_NAME: Final = re.compile(r"mlx\d+_(\d{1,4})")
_PREDICTABLE: Final = re.compile(r"(?:rocep|ibp)\d+s\d+(?:f\d+)?(?:np?\d+)?(?:d\d+)?")
"""What udev renames Mellanox devices to, after their PCI position."""
_VERBS: Final = re.compile(r"uverbs(\d{1,4})")
_FUNCTION: Final = re.compile(r"virtfn(\d{1,5})")


class Rdma(Vendor):
    """Network interfaces. Amounts are percent, 100 for a healthy one whatever it reports."""

    name = "rdma"
    kind = "rdma"
    request_sets = (frozenset({names.RDMA}),)
    summed = ()
    fixed = {names.RDMA: WHOLE}

    def discover(self, probe: Probe) -> Found:
        """See `Vendor`. A name that says no minor leaves the interface out, with a problem."""
        devices, problems = [], []
        for function in pci.functions(probe):
            folder = f"{pci.DEVICES}/{function.address}"
            links = sorted(probe.names(f"{folder}/infiniband") or ())
            if not function.kind.startswith(NETWORK_CLASS) or not links or probe.resolve(f"{folder}/physfn"):
                continue
            minor = _minor(probe, folder, links[0])
            if isinstance(minor, Problem):
                problems.append(minor)
                continue
            devices.append(
                FoundDevice(
                    kind=self.kind,
                    minor=minor,
                    id=function.address,
                    vendor=self.name,
                    amounts={names.RDMA: WHOLE},
                    status=None if _is_active(probe, links) else _DOWN,
                    place=pci.place(probe, function.address) or Place(bus=function.address),
                    functions=_functions(probe, folder),
                )
            )
        return Found(devices=tuple(devices), problems=tuple(problems))

    def edits(self, container: Container, given: tuple[Given, ...], probe: Probe) -> Edits | Problem:
        """See `Vendor`."""
        numbers = probe.device(CONNECTION_MANAGER)
        if numbers is None:
            return Problem(field=CONNECTION_MANAGER, message="the device file is not there")
        nodes = [DeviceNode(path=CONNECTION_MANAGER, major=numbers.major, minor=numbers.minor)]
        for device in given:
            for text in device.functions or (device.id,):
                verbs = _verbs(probe, device, text)
                if isinstance(verbs, Problem):
                    return verbs
                nodes += verbs
        return Edits(nodes=tuple(nodes))


_DOWN: Final = Status(healthy=False, code="PortNotActive", message="a port is not active")


def minor_of(name: str) -> int | Problem:
    """The minor that an RDMA device's name says (`mlx5_3`); other vendors' names say none."""
    match = _NAME.fullmatch(name)
    return (
        int(match[1]) if match else Problem(field="infiniband", message=f"{name[:40]!r} says no minor as mlx5_0 does")
    )


def _minor(probe: Probe, folder: str, name: str) -> int | Problem:
    """A renamed Mellanox device counts by its verbs device, which is as unique."""
    if _PREDICTABLE.fullmatch(name):
        for verbs in sorted(probe.names(f"{folder}/infiniband_verbs") or ()):
            if match := _VERBS.fullmatch(verbs):
                return int(match[1])
    minor = minor_of(name)
    return Problem(field=f"{folder}/infiniband", message=minor.message) if isinstance(minor, Problem) else minor


def _is_active(probe: Probe, links: list[str]) -> bool:
    states = [
        probe.read(f"/sys/class/infiniband/{link}/ports/{port}/state") or ""
        for link in links
        for port in probe.names(f"/sys/class/infiniband/{link}/ports") or ()
    ]
    return bool(states) and all("ACTIVE" in state for state in states)


def _functions(probe: Probe, folder: str) -> tuple[str, ...]:
    """The addresses of the virtual functions, where they are on, in order."""
    if (parse_integer((probe.read(f"{folder}/sriov_numvfs") or "0").strip()) or 0) <= 0:
        return ()
    paths = (probe.resolve(f"{folder}/{name}") or "" for name in probe.names(folder) or () if _FUNCTION.fullmatch(name))
    return tuple(sorted(filter(None, (pci.address(path.rpartition("/")[2]) for path in paths))))


def _verbs(probe: Probe, device: Given, text: str) -> list[DeviceNode] | Problem:
    field = given_field(device, "extension.vfs" if device.functions else "id")
    # The annotation is text from a stranger; only an address may become a path.
    bus = pci.address(text)
    if not bus:
        return Problem(field=field, message=f"{text[:40]!r} is no PCI address")
    verbs = sorted(filter(_VERBS.fullmatch, probe.names(f"{pci.DEVICES}/{bus}/infiniband_verbs") or ()))
    paths = [f"/dev/infiniband/{name}" for name in verbs]
    found = [(path, probe.device(path)) for path in paths]
    nodes = [DeviceNode(path=path, major=n.major, minor=n.minor) for path, n in found if n is not None]
    return nodes if nodes and len(nodes) == len(found) else Problem(field=field, message=f"{bus} has no verbs device")
