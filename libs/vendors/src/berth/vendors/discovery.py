"""All devices of a machine.

Device files go first: where they show any accelerator, no vendor is asked for accelerators, since both would count the
same cards by minors of their own. NICs and FPGAs are looked for in any case.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from berth.contracts.base import Problem
from berth.vendors import pci
from berth.vendors.device_files import read_files
from berth.vendors.devices import Found, FoundDevice, Status
from berth.vendors.probe import Probe
from berth.vendors.registry import REGISTRY, Registry
from berth.vendors.vendor import Vendor

PROBLEMS_MAX: Final = 100


def discover(probe: Probe, registry: Registry = REGISTRY) -> Found:
    """Devices by kind and minor, and what could not be read. Of devices that share a minor or an id none is healthy."""
    files = read_files(probe)
    devices, problems = list(files.devices), list(files.problems)
    driver, model = files.driver, files.model
    for vendor in registry:
        if vendor.kind == "gpu" and files.devices:
            continue
        found = vendor.discover(probe)
        devices += found.devices
        problems += found.problems
        if vendor.kind == "gpu":
            driver, model = driver or found.driver, model or found.model
    problems += _undescribed(probe, registry, devices)
    devices = _without_doubles(devices, problems)
    devices.sort(key=lambda device: (device.kind, device.minor))
    return Found(devices=tuple(devices), problems=tuple(problems[:PROBLEMS_MAX]), driver=driver, model=model)


def _undescribed(probe: Probe, registry: Registry, devices: list[FoundDevice]) -> list[Problem]:
    """Accelerators in the PCI tree of vendors that only device files describe, where no file has one."""
    described = {registry.of("gpu", each.vendor) for each in devices if each.kind == "gpu"}
    missing = [vendor for vendor in registry if vendor.pci is not None and vendor not in described]
    functions = pci.functions(probe) if missing else []
    problems = []
    for vendor in missing:
        count = sum(_is_of(function, vendor) for function in functions)
        if count:
            message = f"{count} functions are accelerators of {vendor.name}, and no device file describes one"
            problems.append(Problem(field=pci.DEVICES, message=message))
    return problems


def _is_of(function: pci.PciFunction, vendor: Vendor) -> bool:
    match = vendor.pci
    return match is not None and function.vendor == match.vendor and function.product not in match.but


def _without_doubles(devices: list[FoundDevice], problems: list[Problem]) -> list[FoundDevice]:
    """One device for each kind and minor. Nobody can tell which of two is meant, so nothing new is placed there."""
    minors = Counter((each.kind, each.minor) for each in devices)
    ids = Counter((each.kind, each.id) for each in devices if each.id)
    kept: dict[tuple[str, int], FoundDevice] = {}
    for each in devices:
        key = (each.kind, each.minor)
        if minors[key] > 1:
            what, text = "DuplicateMinor", f"{each.kind} minor {each.minor} is reported {minors[key]} times"
        elif ids[each.kind, each.id] > 1:
            what, text = "DuplicateId", f"{each.kind} id {each.id[:80]!r} is reported {ids[each.kind, each.id]} times"
        else:
            kept[key] = each
            continue
        if key not in kept:
            problems.append(Problem(field=f"devices[{each.kind} {each.minor}]", message=text))
            kept[key] = replace(each, status=Status(healthy=False, code=what, message=text))
    return list(kept.values())
