"""Which devices a request explains: of how many it takes how much, and whether a virtual function of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import VF, device, device_of
from berth.contracts.ledger import Grant
from berth.resources.amounts import Amounts
from berth.rules.device_request import device_requests
from berth.rules.devices.columns import FAMILIES, GPU
from berth.rules.devices.hints import APPLY_FOR_ALL, DEVICE_LEVEL, NO_HINT, REQUESTS_AS_COUNT, Hint
from berth.rules.devices.request import DeviceRequest, read_request
from berth.rules.devices.split import Split
from berth.rules.devices.want import MAX_DEVICES, WHOLE
from berth.rules.gpu_request import per_card


class Limit(NamedTuple):
    """What a request takes of one kind: `each` from every one of `least` to `most` devices.

    `takes_functions`: with a virtual function of each. `split`: not as much of each, but so much in all.
    """

    each: Amounts
    least: int
    most: int
    takes_functions: bool = False
    split: Split | None = None


def devices_within(
    grants: tuple[Grant, ...], requests: Mapping[str, int], annotations: Mapping[str, str]
) -> tuple[Grant, ...]:
    """Of these devices those that the request explains, with no more of each than it asks for."""
    limits = limits_of(requests, annotations) if grants else {}
    left = {kind: limit.split.percent for kind, limit in limits.items() if limit.split is not None}
    counted: list[Grant] = []
    for grant, functions in _explained(grants, limits):
        limit = limits[grant.kind]
        amounts = _within(grant.amounts, limit, left.get(grant.kind, 0))
        if limit.split is not None:
            left[grant.kind] -= amounts.get(names.GPU_MEMORY_RATIO, 0)
        counted += (device(grant.kind, grant.minor, amounts, grant.extension), *functions)
    return tuple(counted)


def devices_held(
    grants: tuple[Grant, ...], requests: Mapping[str, int], annotations: Mapping[str, str]
) -> tuple[Grant, ...]:
    """Of these devices as many as the request takes, each with all that it takes of one; none where they are fewer.

    A record of less than is asked for would have what is held count as free.
    """
    limits = limits_of(requests, annotations) if grants else {}
    explained = _explained(grants, limits)
    for kind, limit in limits.items():
        mine = [(grant, functions) for grant, functions in explained if grant.kind == kind]
        if len(mine) < limit.least or (limit.takes_functions and not all(functions for _, functions in mine)):
            return ()
        if limit.split is not None and sum(_percent(grant) for grant, _ in mine) != limit.split.percent:
            return ()
    held: list[Grant] = []
    for grant, functions in explained:
        limit = limits[grant.kind]
        amounts = _within(grant.amounts, limit, WHOLE) | ({} if limit.split is not None else limit.each)
        held += (device(grant.kind, grant.minor, amounts, grant.extension), *functions)
    return tuple(held)


def limits_of(requests: Mapping[str, int], annotations: Mapping[str, str]) -> dict[str, Limit]:
    """What a pod takes, by kind; of one whose annotations cannot be read what its requests say."""
    request = read_request(requests, annotations)
    if isinstance(request, Problem):
        amounts = device_requests(requests)
        if isinstance(amounts, Problem):
            return {}
        request = DeviceRequest(amounts)
    return limits_of_request(request)


def limits_of_request(request: DeviceRequest) -> dict[str, Limit]:
    """What is taken by kind."""
    limits = {
        kind: _limit(kind, amounts, request.hints.get(kind, NO_HINT), request.split)
        for kind, amounts in request.amounts.items()
    }
    if request.joint is None or len(limits) < 2:
        return limits
    joint = [
        kind
        for kind in request.joint.types
        if kind in limits and request.hints.get(kind, NO_HINT).strategy != APPLY_FOR_ALL
    ]
    for kind in joint[1:]:
        if kind != GPU.name:  # one more at each place of the leading type
            limits[kind] = limits[kind]._replace(most=max(limits[kind].most, limits[joint[0]].most))
    return limits


def _limit(kind: str, amounts: Mapping[str, int], hint: Hint, split: Split | None) -> Limit:
    takes_functions = hint.functions is not None
    if kind == GPU.name:
        cards = per_card(amounts)
        if split is not None:
            return Limit(cards.each, 1, split.cards, takes_functions, split)
        return Limit(cards.each, cards.count, cards.count, takes_functions)
    (name,) = FAMILIES[kind].columns
    amount = amounts[name]
    if amount > WHOLE:
        each, least, most = WHOLE, amount // WHOLE, amount // WHOLE
    elif hint.strategy == APPLY_FOR_ALL:
        each, least, most = amount, 1, MAX_DEVICES
    elif hint.strategy == REQUESTS_AS_COUNT:
        each, least, most = (WHOLE if hint.exclusive == DEVICE_LEVEL else 1), amount, amount
    else:
        each, least, most = amount, 1, 1
    return Limit({name: each}, least, most, takes_functions)


def _explained(grants: Iterable[Grant], limits: Mapping[str, Limit]) -> list[tuple[Grant, tuple[Grant, ...]]]:
    """Each device that a limit explains, with its virtual function."""
    functions: dict[tuple[str, int], Grant] = {}
    buses: set[str] = set()
    grants = tuple(grants)
    for grant in grants:
        if grant.kind == VF and grant.id not in buses:
            buses.add(grant.id)
            functions.setdefault(device_of(grant), grant)
    explained: list[tuple[Grant, tuple[Grant, ...]]] = []
    taken: dict[str, set[int]] = {}
    for grant in grants:
        limit = limits.get(grant.kind)  # cards of every vendor are `gpu`
        minors = taken.setdefault(grant.kind, set())
        if limit is None or grant.minor in minors or len(minors) == limit.most:
            continue
        minors.add(grant.minor)
        mine = functions.get((grant.kind, grant.minor)) if limit.takes_functions else None
        explained.append((grant, (mine,) if mine is not None else ()))
    return explained


def _within(amounts: Amounts, limit: Limit, left: int) -> Amounts:
    """What counts of noted amounts; of a divided request at most `left` percent."""
    most = limit.each if limit.split is None else dict.fromkeys(limit.each, min(left, WHOLE))
    counted = {name: min(amount, most[name]) for name, amount in amounts.items() if name in most}
    if names.GPU_MEMORY_RATIO in most and names.GPU_MEMORY in amounts:
        counted[names.GPU_MEMORY] = amounts[names.GPU_MEMORY]
    elif names.GPU_MEMORY in most and names.GPU_MEMORY_RATIO in amounts:
        counted[names.GPU_MEMORY_RATIO] = min(amounts[names.GPU_MEMORY_RATIO], WHOLE)
    return counted


def _percent(grant: Grant) -> int:
    return min(grant.amounts.get(names.GPU_MEMORY_RATIO, 0), WHOLE)
