"""Accelerators behind the kernel's compute driver (KFD): AMD's, and Hygon's, whose driver descends from it.

`/sys/class/kfd/kfd/topology/nodes/<n>/` has `gpu_id` (0 for a CPU), `properties` (a name and a number on each line) and
`mem_banks/<i>/properties`. A card's minor is the number of its render node above 128, so that its device file follows
from its minor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.numbers import parse_integer
from berth.vendors import pci
from berth.vendors.devices import Found, FoundDevice, Place, common_model
from berth.vendors.label_value import label_value
from berth.vendors.probe import Probe
from berth.vendors.vendor import WHOLE, DeviceNode, Edits, Given, given_field

NODES: Final = "/sys/class/kfd/kfd/topology/nodes"
RENDER_FIRST: Final = 128
RENDER_LAST: Final = 255
_FRAME_BUFFERS: Final = ("1", "2")
"""Heap types of memory on the card, visible to the host or not."""


def discover(probe: Probe, vendor: str, vendor_id: int) -> Found:
    """The accelerators of a PCI vendor."""
    devices, problems = [], []
    for name in sorted(probe.names(NODES) or (), key=lambda name: (len(name), name)):
        folder = f"{NODES}/{name}"
        if (probe.read(f"{folder}/gpu_id") or "0").strip() == "0":
            continue
        properties = _properties(probe.read(f"{folder}/properties"))
        if _number(properties, "vendor_id") != vendor_id:
            continue
        device = _device(probe, folder, vendor, properties)
        if isinstance(device, Problem):
            problems.append(device)
        else:
            devices.append(device)
    return Found(devices=tuple(_with_own_ids(devices)), problems=tuple(problems), model=common_model(devices))


def edits(
    given: tuple[Given, ...], probe: Probe, control: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Edits | Problem:
    """The driver's device files and the render node of each card. `optional` files may be missing."""
    wanted = [(path, "") for path in control]
    wanted += [(f"/dev/dri/renderD{RENDER_FIRST + each.minor}", given_field(each, "minor")) for each in given]
    nodes = []
    for path, field in wanted:
        numbers = probe.device(path)
        if numbers is None and path in optional:
            continue
        if numbers is None:
            return Problem(field=field or path, message=f"the device file {path} is not there")
        nodes.append(DeviceNode(path=path, major=numbers.major, minor=numbers.minor))
    return Edits(nodes=tuple(nodes))


def _device(probe: Probe, folder: str, vendor: str, properties: Mapping[str, str]) -> FoundDevice | Problem:
    render, location = _number(properties, "drm_render_minor"), _number(properties, "location_id")
    if render is None or not RENDER_FIRST <= render <= RENDER_LAST:
        return _problem(folder, f"drm_render_minor must lie between {RENDER_FIRST} and {RENDER_LAST}")
    if location is None or not 0 <= location < 1 << 16:
        return _problem(folder, "location_id must be a PCI bus, device and function in 16 bits")
    memory = _memory(probe, folder)
    if memory <= 0:
        return _problem(folder, "its memory banks show no memory on the card")
    bus = f"{_number(properties, 'domain') or 0:04x}:{location >> 8:02x}:{location >> 3 & 31:02x}.{location & 7}"
    unique = _number(properties, "unique_id") or 0
    model = probe.read(f"{pci.DEVICES}/{bus}/product_name") or probe.read(f"{folder}/name") or ""
    return FoundDevice(
        kind="gpu",
        minor=render - RENDER_FIRST,
        id=f"{unique:016x}" if unique > 0 else bus,
        vendor=vendor,
        model=label_value(model),
        amounts={names.GPU_CORE: WHOLE, names.GPU_MEMORY: memory, names.GPU_MEMORY_RATIO: WHOLE},
        place=pci.place(probe, bus) or Place(bus=bus),
    )


def _with_own_ids(devices: list[FoundDevice]) -> list[FoundDevice]:
    """Partitions of one card share its id: each gets its minor behind it."""
    shared = Counter(device.id for device in devices)
    return [replace(each, id=f"{each.id}-{each.minor}") if shared[each.id] > 1 else each for each in devices]


def _memory(probe: Probe, folder: str) -> int:
    banks = (
        _properties(probe.read(f"{folder}/mem_banks/{name}/properties"))
        for name in probe.names(f"{folder}/mem_banks") or ()
    )
    return sum(_number(bank, "size_in_bytes") or 0 for bank in banks if bank.get("heap_type") in _FRAME_BUFFERS)


def _properties(text: str | None) -> dict[str, str]:
    lines = (line.split() for line in (text or "").splitlines())
    return {line[0]: line[1] for line in lines if len(line) == 2}


def _number(properties: Mapping[str, str], name: str) -> int | None:
    # `unique_id` fills 64 bits without a sign.
    return parse_integer(properties.get(name, ""), bits=65)


def _problem(folder: str, message: str) -> Problem:
    return Problem(field=f"{folder}/properties", message=message)
