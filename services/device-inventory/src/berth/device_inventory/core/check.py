"""What of a reported Device can be used, and what is wrong with the rest.

A device that cannot be trusted is kept in the list as unhealthy, so that pods on it stay accounted for and nothing
new is placed there; one whose kind or minor cannot be read is left out. The good devices of the same object stay
usable. In particular:

- two entries with one minor, or one id, make all of them unusable: nobody can tell which of them the node agent means;
- an amount that is missing from every resource, above a whole device, or absurd makes that device unusable;
- GPUs of one model with different memory stay usable, each with its own, and are reported: one of them is probably
  misread;
- a virtual function that is listed more than once is given out by nobody; its devices stay usable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.inventory import DeviceSlot
from berth.contracts.state import Device, DeviceFunction, DeviceInfo
from berth.device_inventory.core import legacy

KINDS: Final = ("fpga", "gpu", "rdma")
PERCENTS: Final = (names.GPU_CORE, names.GPU_MEMORY_RATIO, names.NPU_DVPP, names.FPGA)
DEVICES_MAX: Final = 1024
MINOR_MAX: Final = 65_535
NUMA_MAX: Final = 1_023
AMOUNT_MAX: Final = 1 << 50
"""Largest amount of one device.

1 PiB, far above any memory there is, and low enough for sums and products in 64 bits.
"""
NAMES_MAX: Final = 32
LABELS_MAX: Final = 64
BUS_LENGTH_MAX: Final = 64
REASON_MAX: Final = 64
PROBLEMS_MAX: Final = 50


class Checked(NamedTuple):
    """Devices by rising kind and minor, and what was wrong."""

    slots: list[DeviceSlot]
    problems: list[Problem]


def check(device: Device) -> Checked:
    """Read one Device object. `device.problems`, found when it was flattened, come first."""
    problems = list(device.problems)
    entries = device.devices[:DEVICES_MAX]
    if len(device.devices) > DEVICES_MAX:
        problems.append(_problem("spec.devices", f"has {len(device.devices)} entries; only {DEVICES_MAX} are read"))
    unreadable = tuple(problem.field for problem in device.problems)
    placed = [entry for entry in entries if _has_a_place(entry, problems)]
    doubtful = _doubles(placed, problems)
    buses = Counter(each.bus for entry in placed for each in entry.functions)
    slots: dict[tuple[str, int], DeviceSlot] = {}
    for entry in placed:
        place = (entry.kind, entry.minor)
        if place in slots:
            slots[place] = DeviceSlot(kind=entry.kind, minor=entry.minor, healthy=False)
            continue
        slot = replace(_slot(entry, problems), functions=_functions(entry, buses, problems))
        if entry.position in doubtful or _touched(entry, unreadable):
            slot = replace(slot, healthy=False)
        slots[place] = slot
    ordered = [slots[place] for place in sorted(slots)]
    _compare_memory(device, ordered, problems)
    return Checked(ordered, limited(problems))


def path(entry: DeviceInfo, rest: str) -> str:
    """Where in the object a field of this entry is."""
    return f"spec.devices[{entry.position}].{rest}"


def _has_a_place(entry: DeviceInfo, problems: list[Problem]) -> bool:
    if entry.kind not in KINDS:
        problems.append(_problem(path(entry, "type"), f"{entry.kind[:40]!r} is none of {', '.join(KINDS)}"))
        return False
    if not 0 <= entry.minor <= MINOR_MAX:
        problems.append(_problem(path(entry, "minor"), f"{entry.minor} must lie between 0 and {MINOR_MAX}"))
        return False
    return True


def _doubles(entries: Sequence[DeviceInfo], problems: list[Problem]) -> set[int]:
    """Positions of entries that claim a minor or an id of another one."""
    minors = Counter((entry.kind, entry.minor) for entry in entries)
    ids = Counter((entry.kind, entry.uuid) for entry in entries if entry.uuid)
    found: set[int] = set()
    for entry in entries:
        if minors[entry.kind, entry.minor] > 1:
            problems.append(
                _problem(path(entry, "minor"), f"{entry.kind} minor {entry.minor} is listed more than once")
            )
            found.add(entry.position)
        elif entry.uuid and ids[entry.kind, entry.uuid] > 1:
            problems.append(_problem(path(entry, "id"), f"{entry.uuid[:80]!r} is the id of more than one {entry.kind}"))
            found.add(entry.position)
    return found


def _slot(entry: DeviceInfo, problems: list[Problem]) -> DeviceSlot:
    amounts, usable = _amounts(entry, problems)
    numa_node, pcie = -1, ""
    if entry.topology is not None:
        numa_node, pcie = entry.topology.numa_node, entry.topology.pcie[:256]
        if not -1 <= numa_node <= NUMA_MAX:
            problems.append(_problem(path(entry, "topology.nodeID"), f"{numa_node} must lie between -1 and {NUMA_MAX}"))
            numa_node = -1
    return DeviceSlot(
        kind=entry.kind,
        minor=entry.minor,
        healthy=entry.healthy and usable,
        uuid=entry.uuid[:256],
        amounts=amounts,
        numa_node=numa_node,
        pcie=pcie,
        labels=dict(sorted(entry.labels.items())[:LABELS_MAX]),
        reason="" if entry.healthy else entry.reason[:REASON_MAX],
    )


def _functions(entry: DeviceInfo, buses: Mapping[str, int], problems: list[Problem]) -> list[DeviceFunction]:
    """The virtual functions that can be told from all others of the node, by rising bus address."""
    kept: list[DeviceFunction] = []
    for each in sorted(entry.functions, key=lambda each: each.bus):
        where = path(entry, f"vfGroups[busID {each.bus[:BUS_LENGTH_MAX]}]")
        if not 0 < len(each.bus) <= BUS_LENGTH_MAX:
            problems.append(_problem(where, f"must have 1 to {BUS_LENGTH_MAX} characters"))
        elif buses[each.bus] > 1:
            problems.append(_problem(where, "is listed more than once"))
        else:
            kept.append(replace(each, labels=dict(sorted(each.labels.items())[:LABELS_MAX])))
    return kept


def _amounts(entry: DeviceInfo, problems: list[Problem]) -> tuple[dict[str, int], bool]:
    """The amounts that can be believed, and whether all of them could."""
    if entry.kind == "rdma":
        # NICs report numbers of their own making; a NIC is 100 percent of itself (Koordinator's rule).
        return {names.RDMA: 100}, True
    given = legacy.renamed(entry.amounts, legacy.RESOURCES)
    amounts: dict[str, int] = {}
    usable = True
    for name in sorted(given)[:NAMES_MAX]:
        amount, most = given[name], 100 if name in PERCENTS else AMOUNT_MAX
        if 0 <= amount <= most:
            amounts[name] = amount
        else:
            problems.append(_problem(path(entry, f"resources[{name}]"), f"{amount} must lie between 0 and {most}"))
            usable = False
    if len(given) > NAMES_MAX:
        problems.append(_problem(path(entry, "resources"), f"has {len(given)} entries; only {NAMES_MAX} are read"))
    if usable and entry.healthy and not any(amounts.values()):
        problems.append(_problem(path(entry, "resources"), "a healthy device must offer something"))
        usable = False
    return amounts, usable


def _compare_memory(device: Device, slots: Iterable[DeviceSlot], problems: list[Problem]) -> None:
    """One model label means that all GPUs are alike; then they have the same memory."""
    model = gpu_label(device.labels, names.LABEL_GPU_MODEL)
    gpus = [slot for slot in slots if slot.kind == "gpu" and slot.healthy]
    sizes = Counter(slot.amounts.get(names.GPU_MEMORY, 0) for slot in gpus)
    if not model or len(sizes) < 2:
        return
    usual = max(sizes, key=lambda size: (sizes[size], size))
    for slot in gpus:
        size = slot.amounts.get(names.GPU_MEMORY, 0)
        if size != usual:
            position = next(e.position for e in device.devices if (e.kind, e.minor) == (slot.kind, slot.minor))
            problems.append(
                _problem(
                    f"spec.devices[{position}].resources[{names.GPU_MEMORY}]",
                    f"{size} differs from the {usual} bytes of other GPUs of model {model[:63]}",
                )
            )


def gpu_label(labels: Mapping[str, str], name: str) -> str:
    """A label of the Device object, by today's or an older name; empty if it isn't there."""
    return legacy.renamed(labels, legacy.LABELS).get(name, "")


def _touched(entry: DeviceInfo, fields: Sequence[str]) -> bool:
    """Whether flattening already found fault with this entry; with a virtual function is none with the device."""
    own = f"spec.devices[{entry.position}]"
    functions = path(entry, "vfGroups")
    return any(
        field == own or (field.startswith((own + ".", own + "[")) and not field.startswith(functions))
        for field in fields
    )


def limited(problems: list[Problem]) -> list[Problem]:
    """The first of the problems, with how many more there are."""
    if len(problems) <= PROBLEMS_MAX:
        return problems
    return [
        *problems[: PROBLEMS_MAX - 1],
        _problem("spec.devices", f"{len(problems) - PROBLEMS_MAX + 1} more problems"),
    ]


def _problem(field: str, message: str) -> Problem:
    return Problem(field=field, message=message)
