"""The devices that a pod was given, and which of its containers has them: two annotations of the pod.

`device-allocated` says what the pod has, by kind. `container-devices` says which container has which of it, by
container and then in the same form; without it the first container has everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube import View
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.records.seam import RECORD_LENGTH_MAX

ID_LENGTH_MAX: Final = 256
MINOR_MAX: Final = 2**31 - 1

_Id = Annotated[str, msgspec.Meta(max_length=ID_LENGTH_MAX)]
_FIELD: Final = annotation_field(names.ANNOTATION_CONTAINER_DEVICES)


class AllocatedDevice(NamedTuple):
    """A device of a pod: its kind and minor, what its vendor calls it, the bus ids of its virtual functions if those
    are what the pod has, and the names of the resources that it has of it."""

    kind: str
    minor: int = 0
    id: str = ""
    vfs: tuple[str, ...] = ()
    resources: frozenset[str] = frozenset()

    @property
    def ids(self) -> tuple[str, ...]:
        """What callers know it by: its virtual functions, else itself; nothing where neither has a name."""
        return self.vfs or ((self.id,) if self.id else ())


class _Function(View, frozen=True, kw_only=True):
    bus_id: _Id = msgspec.field(default="", name="busID")


class _Extension(View, frozen=True, kw_only=True):
    vfs: list[_Function] | None = None


class _Device(View, frozen=True, kw_only=True):
    minor: Annotated[int, msgspec.Meta(ge=0, le=MINOR_MAX)] = 0
    id: _Id = ""
    resources: dict[str, Any] | None = None
    extension: _Extension | None = None


_Devices = dict[str, list[_Device] | None]


def devices_of_containers(
    annotations: Mapping[str, str], containers: Sequence[str]
) -> dict[str, tuple[AllocatedDevice, ...]] | Problem:
    """The devices of each container of a pod, by its name; a container without any is left out.

    `containers` are those of the pod that run or may run, in order. A problem names the annotation, and the field
    within it that names what the pod was not given.
    """
    given = read_annotation(annotations, names.ANNOTATION_DEVICE_ALLOCATED, _Devices, bytes_max=RECORD_LENGTH_MAX)
    if isinstance(given, Problem):
        return given
    devices = _devices(given or {})
    if not devices or not containers:
        return {}
    shares = read_annotation(
        annotations, names.ANNOTATION_CONTAINER_DEVICES, dict[str, _Devices | None], bytes_max=RECORD_LENGTH_MAX
    )
    if isinstance(shares, Problem):
        return shares
    return _shared(devices, shares) if shares else {containers[0]: devices}


def _devices(read: Mapping[str, list[_Device] | None]) -> tuple[AllocatedDevice, ...]:
    return tuple(
        AllocatedDevice(kind, each.minor, each.id, _functions(each), frozenset(each.resources or ()))
        for kind, listed in sorted(read.items())
        for each in listed or ()
    )


def _functions(device: _Device) -> tuple[str, ...]:
    listed = device.extension.vfs if device.extension is not None else None
    return tuple(each.bus_id for each in listed or () if each.bus_id)


def _shared(
    devices: Sequence[AllocatedDevice], shares: Mapping[str, Mapping[str, list[_Device] | None] | None]
) -> dict[str, tuple[AllocatedDevice, ...]] | Problem:
    """What each container names, with ids of the pod's own record: a container holds nothing that the pod does not."""
    known: dict[tuple[str, int], AllocatedDevice] = {}
    for device in devices:
        known.setdefault((device.kind, device.minor), device)
    found: dict[str, tuple[AllocatedDevice, ...]] = {}
    for container, share in shares.items():
        mine: list[AllocatedDevice] = []
        for wanted in _devices(share or {}):
            whole = known.get((wanted.kind, wanted.minor))
            where = f"{_FIELD}.{container[:64]}.{wanted.kind[:64]}"
            if whole is None:
                return Problem(field=where, message=f"minor {wanted.minor} is no device of the pod")
            if not set(wanted.vfs) <= set(whole.vfs):
                return Problem(field=where, message=f"minor {wanted.minor} has no such virtual function of the pod")
            mine.append(whole._replace(vfs=wanted.vfs or whole.vfs))
        if mine:
            found[container] = tuple(mine)
    return found
