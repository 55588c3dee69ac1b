"""How a pod's devices are divided among its containers: each has what it asks for itself, init containers have all.

Devices are chosen for the sum of a pod's requests. Each kind of them is divided by itself: whole devices in order of
minors, then shares, each of one device; a virtual function goes with its device. Where that does not come out (devices
that were chosen to lie close together, an uneven share, 60 and 60 percent of two cards in three), every container
that asks for the kind has all of it. A container that asks for none has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import DEVICE_KINDS, VF, device_of
from berth.contracts.ledger import Grant
from berth.contracts.state import DeviceContainer, PodTemplate
from berth.resources.amounts import Amounts
from berth.rules.device_request import RESOURCES_OF, device_requests
from berth.rules.devices.request import DeviceRequest, read_request
from berth.rules.records.explained_devices import limits_of_request

DIVIDED_MAX: Final = 64
"""Among more containers a kind is not divided."""
TRIES_MAX: Final = 1000
"""How many choices are looked at, at most."""

Part = tuple[Grant, ...]


class _Share(NamedTuple):
    """What a container has of a kind: `each` from every one of `number` devices."""

    container: str
    each: Amounts
    number: int


def divided(grants: Sequence[Grant], template: PodTemplate) -> dict[str, Part]:
    """The devices of each container of a pod, by its name and in the order of the template; one without any is left
    out. Empty: there is nothing to divide, every container has all.

    `grants` are what the pod was given.
    """
    containers = template.device_containers
    if len(containers) < 2:
        return {}
    devices = sorted((each for each in grants if each.kind in DEVICE_KINDS), key=lambda each: (each.kind, each.minor))
    request = read_request(template.requests, template.annotations)
    found: dict[str, list[Grant]] = {each.name: [] for each in containers}
    for kind in sorted({each.kind for each in devices}):
        mine = [each for each in devices if each.kind == kind]
        asking = [each for each in containers if not each.init and _asked(each.requests, kind)]
        parts = _of_kind(kind, mine, asking, template, request)
        if parts is None:
            parts = {each.name: mine for each in asking}
        for each in containers:
            found[each.name] += mine if each.init else parts.get(each.name, ())
    if all(part == devices for part in found.values()) or not any(found.values()):
        return {}
    return {name: _with_functions(part, grants) for name, part in found.items() if part}


def _asked(requests: Mapping[str, int], kind: str) -> Amounts:
    wanted = RESOURCES_OF[kind]
    return {name: amount for name, amount in requests.items() if name in wanted and amount > 0}


def _of_kind(
    kind: str,
    devices: Sequence[Grant],
    asking: Sequence[DeviceContainer],
    template: PodTemplate,
    request: DeviceRequest | Problem,
) -> dict[str, list[Grant]] | None:
    """The parts by container; None where the kind cannot be divided."""
    if len(asking) == 1 and _asked(asking[0].requests, kind) == _asked(template.requests, kind):
        return {asking[0].name: list(devices)}
    if isinstance(request, Problem) or len(asking) > DIVIDED_MAX or _chosen_together(kind, request):
        return None
    shares = []
    for each in asking:
        amounts = device_requests(_asked(each.requests, kind))
        if isinstance(amounts, Problem):
            return None
        limit = limits_of_request(DeviceRequest(amounts, request.hints))[kind]
        # One that names no number takes so much of every device.
        shares.append(_Share(each.name, limit.each, limit.least if limit.least == limit.most else len(devices)))
    order = sorted(shares, key=lambda share: -max(share.each.values()))
    packed = _packed(order, [dict(each.amounts) for each in devices])
    return _parts(shares, packed, devices) if packed is not None else None


def _chosen_together(kind: str, request: DeviceRequest) -> bool:
    """Whether devices of the kind have their place beside others, or unequal parts of a share."""
    if kind == "gpu" and request.split is not None:
        return True
    joint = [each for each in request.joint.types if each in request.amounts] if request.joint is not None else []
    return kind in joint and len(joint) > 1


def _packed(shares: Sequence[_Share], free: list[Amounts]) -> dict[str, tuple[int, ...]] | None:
    """The places of the devices of each share, so that no device gives more than it has free; the largest shares come
    first. None where there is no such choice, or none was found within `TRIES_MAX`."""
    found: dict[str, tuple[int, ...]] = {}
    tries = 0

    def take(places: Sequence[int], each: Amounts, sign: int) -> None:
        for place in places:
            for name, amount in each.items():
                free[place][name] -= sign * amount

    def search(at: int) -> bool:
        nonlocal tries
        tries += 1
        if at == len(shares):
            return True
        share = shares[at]
        serving = [
            place
            for place, left in enumerate(free)
            if all(left.get(name, 0) >= amount for name, amount in share.each.items())
        ]
        if len(serving) < share.number:
            return False
        seen: list[Amounts] = []
        for places in [serving] if share.number > 1 else [[place] for place in serving]:
            chosen = places[: share.number]
            if tries > TRIES_MAX or free[chosen[0]] in seen:
                continue
            seen.append(dict(free[chosen[0]]))
            take(chosen, share.each, 1)
            if search(at + 1):
                found[share.container] = tuple(chosen)
                return True
            take(chosen, share.each, -1)
        return False

    return found if search(0) else None


def _parts(
    shares: Sequence[_Share], packed: Mapping[str, tuple[int, ...]], devices: Sequence[Grant]
) -> dict[str, list[Grant]] | None:
    """What each share is of its devices; None where a part would come to nothing.

    Memory is noted in bytes and in percent: of the one that is not asked for it is the same part as of the other, and
    all parts together are the whole.
    """
    parts: dict[str, list[Grant]] = {}
    before = [0] * len(devices)
    for share in shares:
        asks, follows = names.GPU_MEMORY_RATIO, names.GPU_MEMORY
        if asks not in share.each:
            asks, follows = follows, asks
        for place in packed[share.container]:
            whole = devices[place].amounts
            amounts = dict(share.each)
            if asks in share.each and whole.get(follows, 0):
                after = before[place] + share.each[asks]
                amounts[follows] = whole[follows] * after // whole[asks] - whole[follows] * before[place] // whole[asks]
                if not amounts[follows]:
                    return None  # a limit of nothing keeps a container from beginning
                before[place] = after
            parts.setdefault(share.container, []).append(structs.replace(devices[place], amounts=amounts))
    return parts


def _with_functions(part: Sequence[Grant], grants: Sequence[Grant]) -> Part:
    taken = {(each.kind, each.minor) for each in part}
    return (*part, *(each for each in grants if each.kind == VF and device_of(each) in taken))
