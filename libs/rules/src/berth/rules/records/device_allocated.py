"""`device-allocated`: the devices by kind, each with its minor and how much of it.

A request in percent of a card's memory is noted in bytes as well, and the other way round. How one follows from the
other only the card's size shows, so the amount that was not asked for counts as noted, percents up to a whole card.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import DEVICE_KINDS, device
from berth.contracts.kube import Quantity, View
from berth.contracts.ledger import MINOR_DIGITS_MAX, Grant
from berth.contracts.state import Device, PodTemplate
from berth.resources.amounts import Amounts, format_amounts, parse_amounts
from berth.rules.device_request import device_requests
from berth.rules.gpu_request import FAMILY, CardRequest, per_card
from berth.rules.records.seam import Bound, read_json

WHOLE: Final = 100
"""Percent of one device."""
_PERCENT: Final = frozenset({names.GPU_CORE, names.GPU_MEMORY_RATIO, names.RDMA, names.FPGA})
_BY_PERCENT: Final = {"rdma": names.RDMA, "fpga": names.FPGA}


class _Device(View, frozen=True, kw_only=True):
    minor: Annotated[int, msgspec.Meta(ge=0, lt=10**MINOR_DIGITS_MAX)]
    resources: dict[str, Quantity] = {}


_DEVICES: Final = msgspec.json.Decoder(dict[str, list[_Device]])


class DeviceAllocated:
    """See `GrantRecord`."""

    name = "devices"
    annotations: tuple[str, ...] = (names.ANNOTATION_DEVICE_ALLOCATED,)
    nothing = "{}"
    kinds = DEVICE_KINDS
    resources = frozenset(FAMILY) | {names.RDMA, names.FPGA}

    def asks(self, template: PodTemplate) -> bool:
        """See `GrantRecord`."""
        requests = template.requests
        return not self.resources.isdisjoint(requests) and any(requests.get(name, 0) > 0 for name in self.resources)

    def write(self, bound: Bound) -> dict[str, str]:
        """The text that Koordinator writes for the same allocation: amounts as canonical quantities, in order."""
        mine = [each for each in bound.grants if each.kind in self.kinds]
        if not mine:
            return {}
        content: dict[str, list[dict[str, object]]] = {}
        for grant in sorted(mine, key=lambda grant: (grant.kind, grant.minor)):
            resources = dict(sorted(format_amounts(grant.amounts).items()))
            entry: dict[str, object] = {"minor": grant.minor, "resources": resources}
            if uuid := bound.uuids.get((grant.kind, grant.id), ""):
                entry["id"] = uuid
            content.setdefault(grant.kind, []).append(entry)
        return {names.ANNOTATION_DEVICE_ALLOCATED: msgspec.json.encode(content).decode()}

    def read(self, annotations: Mapping[str, str]) -> tuple[Grant, ...] | None:
        """See `GrantRecord`."""
        text = annotations.get(names.ANNOTATION_DEVICE_ALLOCATED, "")
        return read_devices(text) if text else ()

    def within(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """See `GrantRecord`."""
        return devices_within(grants, template.requests)

    def held(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """See `GrantRecord`."""
        return devices_held(grants, template.requests)

    def whole(self, kind: str, resource: str) -> int | None:
        """See `GrantRecord`."""
        return WHOLE if resource in _PERCENT else None

    def called(self, grant: Grant) -> str:
        """See `GrantRecord`."""
        return f"{grant.kind} minor {grant.minor}"

    def broken(self, grant: Grant, device: Device | None) -> str:
        """See `GrantRecord`."""
        listed = device.devices if device is not None else ()
        is_healthy = next(
            (each.healthy for each in listed if (each.kind, each.minor) == (grant.kind, grant.minor)), None
        )
        if is_healthy:
            return ""
        return "is not there any more" if is_healthy is None else "is not healthy"


def read_devices(text: str) -> tuple[Grant, ...] | None:
    """The devices in a record as written; None when it cannot be read."""
    by_kind = read_json(_DEVICES, text)
    if by_kind is None:
        return None
    grants = []
    for kind, devices in sorted(by_kind.items()):
        for each in devices:
            amounts, problems = parse_amounts(each.resources, "resources")
            if problems:
                return None
            grants.append(device(kind, each.minor, amounts))
    return tuple(grants)


def devices_within(grants: tuple[Grant, ...], requests: Mapping[str, int]) -> tuple[Grant, ...]:
    """Of these devices those that the request explains, with no more of each than it asks for."""
    limits = _limits(requests) if grants else {}
    return tuple(
        device(grant.kind, grant.minor, _within(grant.amounts, limits[grant.kind]))
        for grant in _explained(grants, limits)
    )


def devices_held(grants: tuple[Grant, ...], requests: Mapping[str, int]) -> tuple[Grant, ...]:
    """Of these devices as many as the request takes, each with all that it takes of one; none where they are fewer.

    A record of less than is asked for would have what is held count as free.
    """
    limits = _limits(requests) if grants else {}
    explained = _explained(grants, limits)
    if len(explained) < sum(limit.count for limit in limits.values()):
        return ()
    return tuple(
        device(grant.kind, grant.minor, _within(grant.amounts, limits[grant.kind]) | limits[grant.kind].each)
        for grant in explained
    )


def _limits(requests: Mapping[str, int]) -> dict[str, CardRequest]:
    asked = device_requests(requests)
    if isinstance(asked, Problem):
        return {}
    return {family: _limit(family, request) for family, request in asked.items()}


def _explained(grants: tuple[Grant, ...], limits: Mapping[str, CardRequest]) -> list[Grant]:
    explained: list[Grant] = []
    taken: dict[str, set[int]] = {}
    for grant in grants:
        limit = limits.get(grant.kind)  # cards of every vendor are `gpu`
        minors = taken.setdefault(grant.kind, set())
        if limit is None or grant.minor in minors or len(minors) == limit.count:
            continue
        minors.add(grant.minor)
        explained.append(grant)
    return explained


def _limit(family: str, request: Mapping[str, int]) -> CardRequest:
    if family == "gpu":
        return per_card(request)
    name = _BY_PERCENT[family]
    count = max(1, request[name] // WHOLE)
    return CardRequest(count, {name: request[name] // count}, request[name] < WHOLE)


def _within(amounts: Amounts, limit: CardRequest) -> Amounts:
    counted = {name: min(amount, limit.each[name]) for name, amount in amounts.items() if name in limit.each}
    if names.GPU_MEMORY_RATIO in limit.each and names.GPU_MEMORY in amounts:
        counted[names.GPU_MEMORY] = amounts[names.GPU_MEMORY]
    elif names.GPU_MEMORY in limit.each and names.GPU_MEMORY_RATIO in amounts:
        counted[names.GPU_MEMORY_RATIO] = min(amounts[names.GPU_MEMORY_RATIO], WHOLE)
    return counted
