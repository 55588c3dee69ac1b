"""Claims: who holds which room on which node, read from a bound object or from a decision.

A claim is what a holder takes, in one shape whatever it was read from, so that room is one sum. Amounts keep the
names of the request, device amounts included; `devices` says which minors.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from berth.contracts import names
from berth.contracts.kube import View
from berth.contracts.ledger import Decision, DeviceGrant
from berth.contracts.state import Amounts, Pod, Reservation

Name = tuple[str, str]
"""Namespace and name; a Reservation has the empty namespace."""

ANNOTATION_BYTES_MAX = 256 * 1024


class Claim(NamedTuple):
    """What one holder takes.

    `quota` is `tree/group` or empty, `reservation` the uid of the reservation that the holder draws on, `plan` the plan
    it was placed under (empty: placed by somebody else). `unreadable` says that it holds devices of which nobody knows the
    minors, so that no device of that node can be given out safely. `is_bound` tells an object from a decision.
    """

    name: Name
    uid: str
    node: str
    amounts: Amounts
    devices: tuple[DeviceGrant, ...] = ()
    ports: tuple[str, ...] = ()
    quota: str = ""
    non_preemptible: bool = False
    reservation: str = ""
    plan: str = ""
    attempt: int = 0
    is_reservation: bool = False
    is_bound: bool = False
    unreadable: bool = False

    def takes_as(self, other: Claim) -> bool:
        """The same holder takes the same room: only who tells of it differs (a decision, or the bound object)."""
        return (
            self[:9] == other[:9]
            and self.is_reservation == other.is_reservation
            and self.unreadable == other.unreadable
        )

    @property
    def is_ours(self) -> bool:
        """Placed under a plan of Berth."""
        return bool(self.plan)


class _Device(View, frozen=True, kw_only=True):
    minor: Annotated[int, msgspec.Meta(ge=0)]
    resources: dict[str, str | int] = {}


class _ReservationRef(View, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""


_DEVICES = msgspec.json.Decoder(dict[str, list[_Device]])
_RESERVATION = msgspec.json.Decoder(_ReservationRef)


def of_decision(decision: Decision) -> Claim:
    """The claim that a decision makes."""
    return Claim(
        name=(decision.namespace, decision.name),
        uid=decision.uid,
        node=decision.node,
        amounts=decision.allocation.amounts,
        devices=tuple(decision.allocation.devices),
        ports=tuple(decision.host_ports),
        quota=decision.quota,
        non_preemptible=decision.non_preemptible,
        reservation=decision.reservation_uid,
        plan=decision.plan,
        attempt=decision.attempt,
        is_reservation=decision.kind == "reservation",
    )


def of_pod(pod: Pod, device_names: frozenset[str]) -> Claim:
    """The claim of a bound pod; `device_names` are the resources that are given out by minor."""
    notes = pod.template.annotations
    devices, readable = _read_devices(notes.get(names.ANNOTATION_DEVICE_ALLOCATED, ""))
    requests = pod.template.requests
    wants_devices = not device_names.isdisjoint(requests) and any(requests.get(name, 0) > 0 for name in device_names)
    return Claim(
        name=(pod.namespace, pod.name),
        uid=pod.uid,
        node=pod.node,
        amounts=pod.template.requests,
        devices=devices,
        ports=tuple(f"{p.host_ip or '0.0.0.0'}/{p.protocol}/{p.port}" for p in pod.template.host_ports),  # noqa: S104
        quota=notes.get(names.ANNOTATION_QUOTA, ""),
        non_preemptible=pod.template.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false",
        reservation=_read_reservation(notes.get(names.ANNOTATION_RESERVATION_ALLOCATED, "")),
        plan=pod.plan,
        attempt=pod.attempt,
        is_bound=True,
        unreadable=not readable or (wants_devices and not devices),
    )


def of_reservation(reservation: Reservation) -> Claim:
    """The claim of a Reservation that has its node."""
    notes = {**reservation.template.annotations, **reservation.annotations}
    devices, readable = _read_devices(notes.get(names.ANNOTATION_DEVICE_ALLOCATED, ""))
    return Claim(
        name=("", reservation.name),
        uid=reservation.uid,
        node=reservation.node,
        amounts=reservation.allocatable or reservation.template.requests,
        devices=devices,
        plan=reservation.plan,
        attempt=reservation.attempt,
        is_reservation=True,
        is_bound=True,
        unreadable=not readable,
    )


def _read_devices(text: str) -> tuple[tuple[DeviceGrant, ...], bool]:
    """Grants in a device annotation, and whether it could be read."""
    if not text:
        return (), True
    if len(text) > ANNOTATION_BYTES_MAX:
        return (), False
    try:
        by_kind = _DEVICES.decode(text)
        grants = tuple(
            DeviceGrant(kind=kind, minor=device.minor, amounts={k: _integer(v) for k, v in device.resources.items()})
            for kind, devices in sorted(by_kind.items())
            for device in devices
        )
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return (), False
    return grants, True


_SUFFIXES = {
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
}


def _integer(quantity: str | int) -> int:
    """An amount in an annotation. Raises ValueError; a negative one would make others' room look larger."""
    amount = quantity if isinstance(quantity, int) else _parsed(quantity)
    if amount < 0:
        raise ValueError(f"{quantity} is negative")
    return amount


def _parsed(quantity: str) -> int:
    for suffix, factor in _SUFFIXES.items():
        if quantity.endswith(suffix):
            return int(quantity.removesuffix(suffix)) * factor
    return int(quantity)


def _read_reservation(text: str) -> str:
    """Uid of the reservation named in the annotation; empty when there is none or it cannot be read."""
    if not text or len(text) > ANNOTATION_BYTES_MAX:
        return ""
    try:
        return _RESERVATION.decode(text).uid
    except (msgspec.MsgspecError, RecursionError):
        return ""
