"""What an allocation note of a bound pod counts for, while no decision says what the pod was given.

A user that may create or update pods can write annotations, and bind the pod by `spec.nodeName`. So a note is no proof:
it says where the pod holds what it asks for, and never that it holds more. A pod that asks for no device holds none,
whatever its note says, also when the note cannot be read.

A request in percent of a card's memory is noted in bytes as well, and the other way round. How one follows from the
other only the card's size shows, so the amount that was not asked for counts as noted, percents up to a whole card.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import device
from berth.contracts.kube import Quantity, View
from berth.contracts.ledger import Grant
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.device_request import device_requests
from berth.rules.gpu_request import CardRequest, per_card

NOTE_LENGTH_MAX: Final = 256 * 1024
WHOLE: Final = 100
"""Percent of one device."""
ALLOCATION_NOTES: Final = (
    names.ANNOTATION_DEVICE_ALLOCATED,
    names.ANNOTATION_RESERVATION_ALLOCATED,
    names.ANNOTATION_RESOURCE_STATUS,
    names.ANNOTATION_BIND_GANG_GROUP,
    names.ANNOTATION_BIND_GANG_COUNT,
    names.ANNOTATION_PLAN,
    names.ANNOTATION_QUOTA,
)
"""Annotations that a bind writes: each of them is evidence for somebody."""
_STRUCTURED: Final = frozenset(ALLOCATION_NOTES[:3])
_BY_PERCENT: Final = {"rdma": names.RDMA, "fpga": names.FPGA}


class _Device(View, frozen=True, kw_only=True):
    minor: Annotated[int, msgspec.Meta(ge=0)]
    resources: dict[str, Quantity] = {}


class _Reference(View, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""


_DEVICES: Final = msgspec.json.Decoder(dict[str, list[_Device]])
_REFERENCE: Final = msgspec.json.Decoder(_Reference)


def noted_devices(text: str) -> tuple[Grant, ...] | None:
    """The devices in a note as written; None when it cannot be read."""
    if not text:
        return ()
    if len(text) > NOTE_LENGTH_MAX:
        return None
    try:
        by_kind = _DEVICES.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    grants = []
    for kind, devices in sorted(by_kind.items()):
        for each in devices:
            amounts, problems = parse_amounts(each.resources, "resources")
            if problems:
                return None
            grants.append(device(kind, each.minor, amounts))
    return tuple(grants)


def counted_devices(grants: tuple[Grant, ...], requests: Mapping[str, int]) -> tuple[Grant, ...]:
    """Of the noted devices those that the request explains, with no more of each than it asks for."""
    if not grants:
        return ()
    asked = device_requests(requests)
    if isinstance(asked, Problem):
        return ()
    limits = {family: _limit(family, request) for family, request in asked.items()}
    counted: list[Grant] = []
    taken: dict[str, set[int]] = {}
    for grant in grants:
        limit = limits.get(grant.kind)  # cards of every vendor are `gpu`
        minors = taken.setdefault(grant.kind, set())
        if limit is None or grant.minor in minors or len(minors) == limit.count:
            continue
        minors.add(grant.minor)
        counted.append(device(grant.kind, grant.minor, _within(grant.amounts, limit)))
    return tuple(counted)


def noted_reservation(text: str) -> str:
    """Uid of the reservation in a note; empty when there is none or it cannot be read."""
    if not text or len(text) > NOTE_LENGTH_MAX:
        return ""
    try:
        return _REFERENCE.decode(text).uid
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""


def bind_notes(decided: Mapping[str, str], carried: Mapping[str, str]) -> dict[str, str]:
    """What a bind writes: the notes of its decision, and an empty one over every other that the pod `carried`."""
    empty = {name: "{}" if name in _STRUCTURED else "" for name in ALLOCATION_NOTES if carried.get(name)}
    return {**empty, **decided}


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
