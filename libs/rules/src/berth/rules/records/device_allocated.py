"""`device-allocated`: the devices by kind, each with its minor, how much of it, and its virtual functions.

A request in percent of a card's memory is noted in bytes as well, and the other way round. How one follows from the
other only the card's size shows, so the amount that was not asked for counts as noted, percents up to a whole card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec
from msgspec import structs

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import COUNT, DEVICE_KINDS, OWN_ROOT, VF, device, device_of, function
from berth.contracts.kube import Quantity, View
from berth.contracts.ledger import MINOR_DIGITS_MAX, Grant
from berth.contracts.state import Device, PodTemplate
from berth.resources.amounts import format_amounts, parse_amounts
from berth.rules.devices.hints import PCIE_LEVEL, Hint, read_hints
from berth.rules.devices.kubelet_counts import GPU, NUMBER, asks_count_alone
from berth.rules.gpu_request import FAMILY
from berth.rules.records.explained_devices import devices_held, devices_within
from berth.rules.records.seam import Bound, read_json

WHOLE: Final = 100
"""Percent of one device."""
_PERCENT: Final = frozenset({names.GPU_CORE, names.GPU_MEMORY_RATIO, names.RDMA, names.FPGA})
_TEXT_LENGTH_MAX: Final = 256
_GPUS: Final = frozenset({GPU})


class _Function(View, frozen=True, kw_only=True):
    bus: Annotated[str, msgspec.Meta(min_length=1, max_length=_TEXT_LENGTH_MAX)] = msgspec.field(name="busID")
    minor: int = 0


class _Extension(View, frozen=True, kw_only=True):
    vfs: list[_Function] | None = None
    template: Annotated[str, msgspec.Meta(max_length=_TEXT_LENGTH_MAX)] = msgspec.field(
        default="", name="gpuSharedResourceTemplate"
    )


class _Device(View, frozen=True, kw_only=True):
    minor: Annotated[int, msgspec.Meta(ge=0, lt=10**MINOR_DIGITS_MAX)]
    resources: dict[str, Quantity] = {}
    extension: _Extension | None = None


_DEVICES: Final = msgspec.json.Decoder(dict[str, list[_Device]])


class DeviceAllocated:
    """See `GrantRecord`."""

    name = "devices"
    annotations: tuple[str, ...] = (names.ANNOTATION_DEVICE_ALLOCATED,)
    nothing = "{}"
    kinds = DEVICE_KINDS | {VF}
    resources = frozenset(FAMILY) | {names.RDMA, names.FPGA}

    def asks(self, template: PodTemplate) -> bool:
        """See `GrantRecord`."""
        requests = template.requests
        return not self.resources.isdisjoint(requests) and any(requests.get(name, 0) > 0 for name in self.resources)

    def unknown(self, amounts: Mapping[str, int]) -> str:
        """See `GrantRecord`. Who asks for a vendor's count alone holds GPUs and nothing else."""
        return NUMBER if asks_count_alone(amounts) else self.name

    def blocks(self, unknown: str) -> frozenset[str]:
        """See `GrantRecord`."""
        return {self.name: self.kinds, NUMBER: _GPUS}.get(unknown, frozenset())

    def write(self, bound: Bound) -> dict[str, str]:
        """The text that Koordinator writes for the same allocation."""
        content = content_of(bound.grants, bound.uuids)
        return {names.ANNOTATION_DEVICE_ALLOCATED: msgspec.json.encode(content).decode()} if content else {}

    def read(self, annotations: Mapping[str, str]) -> tuple[Grant, ...] | None:
        """See `GrantRecord`."""
        text = annotations.get(names.ANNOTATION_DEVICE_ALLOCATED, "")
        return read_devices(text) if text else ()

    def completed(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """See `GrantRecord`. That a PCIe root is the holder's own its hint says, and not the record."""
        if not grants or names.ANNOTATION_DEVICE_HINT not in template.annotations:
            return grants
        hints = read_hints(template.annotations)
        return grants if isinstance(hints, Problem) else with_own_roots(grants, hints)

    def within(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """See `GrantRecord`."""
        return devices_within(grants, template.requests, template.annotations)

    def held(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """See `GrantRecord`."""
        return self.completed(devices_held(grants, template.requests, template.annotations), template)

    def whole(self, kind: str, resource: str) -> int | None:
        """See `GrantRecord`."""
        if kind == VF:
            return 1 if resource == COUNT else None
        return WHOLE if resource in _PERCENT else None

    def called(self, grant: Grant) -> str:
        """See `GrantRecord`."""
        return f"virtual function {grant.id}" if grant.kind == VF else f"{grant.kind} minor {grant.minor}"

    def broken(self, grant: Grant, device: Device | None) -> str:
        """See `GrantRecord`. A virtual function is as healthy as its device."""
        listed = device.devices if device is not None else []
        if grant.kind == VF:
            place = device_of(grant)
            found = [each for each in listed if any(one.bus == grant.id for one in each.functions)]
            listed = [each for each in found if (each.kind, each.minor) == place]
        else:
            listed = [each for each in listed if (each.kind, each.minor) == (grant.kind, grant.minor)]
        if not listed:
            return "is not there any more"
        return "" if listed[0].healthy else "is not healthy"


def content_of(grants: Iterable[Grant], uuids: Mapping[tuple[str, str], str]) -> dict[str, list[dict[str, object]]]:
    """The devices among grants as Koordinator writes them: amounts as canonical quantities, in order.

    `uuids` are those of `Bound`; that of a virtual function is its minor, where it has one.
    """
    grants = in_order(grants)
    functions: dict[tuple[str, int], list[Grant]] = {}
    for grant in grants:
        if grant.kind == VF:
            functions.setdefault(device_of(grant), []).append(grant)
    content: dict[str, list[dict[str, object]]] = {}
    for grant in grants:
        if grant.kind not in DEVICE_KINDS:
            continue
        entry: dict[str, object] = {
            "minor": grant.minor,
            "resources": dict(sorted(format_amounts(grant.amounts).items())),
        }
        if uuid := uuids.get((grant.kind, grant.id), ""):
            entry["id"] = uuid
        extension: dict[str, object] = {}
        if its := functions.get((grant.kind, grant.minor)):
            extension["vfs"] = [_written(each, uuids) for each in its]
        if grant.kind == "gpu" and grant.extension not in ("", OWN_ROOT):
            extension["gpuSharedResourceTemplate"] = grant.extension
        if extension:
            entry["extension"] = extension
        content.setdefault(grant.kind, []).append(entry)
    return content


def read_devices(text: str) -> tuple[Grant, ...] | None:
    """The devices in a record as written, each with its virtual functions after it; None when it cannot be read."""
    by_kind = read_json(_DEVICES, text)
    if by_kind is None:
        return None
    grants: list[Grant] = []
    for kind, devices in sorted(by_kind.items()):
        for each in devices:
            amounts, problems = parse_amounts(each.resources, "resources")
            if problems:
                return None
            extension = each.extension or _Extension()
            grants.append(device(kind, each.minor, amounts, extension.template if kind == "gpu" else ""))
            grants += (function(one.bus, kind, each.minor) for one in extension.vfs or ())
    return tuple(grants)


def with_own_roots(grants: Iterable[Grant], hints: Mapping[str, Hint]) -> tuple[Grant, ...]:
    """The grants, with the mark of those whose holder has the PCIe root to himself."""
    own = {kind for kind, hint in hints.items() if hint.exclusive == PCIE_LEVEL}
    return tuple(
        structs.replace(each, extension=OWN_ROOT) if each.kind in own and not each.extension else each
        for each in grants
    )


def in_order(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    """Devices by kind and minor, each with its virtual functions after it: the order of a record."""
    return tuple(sorted(grants, key=_place))


def _place(grant: Grant) -> tuple[str, int, bool, str]:
    kind, minor = device_of(grant) if grant.kind == VF else (grant.kind, grant.minor)
    return kind, minor, grant.kind == VF, grant.id


def _written(grant: Grant, uuids: Mapping[tuple[str, str], str]) -> dict[str, object]:
    minor = uuids.get((VF, grant.id), "")
    return {"minor": int(minor), "busID": grant.id} if minor not in ("", "0") else {"busID": grant.id}
