"""Do the amounts do: what a pod asks for, what a Reservation has left, and what its node has beside it.

Policy Default (no policy) and Aligned: reserved capacity first, the rest from the node. Restricted: of the tracked
resources everything from the Reservation, the others from the node. Amounts are integers by resource.

The books of a node are those of the protocol: a Reservation stands there in full, and so does each of its users.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts.names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from berth.resources.amounts import Amounts
from berth.rules.gpu_request import FAMILY
from berth.rules.node_fit import in_order
from berth.rules.reservation_ignored_resources import NONE_IGNORED

RESTRICTED: Final = "Restricted"
NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Looked at whether the pod asks for them or not."""
NOTHING: Final[Mapping[str, int]] = {}


class Matched(NamedTuple):
    """A Reservation that matches the pod.

    `tracked`: the resources that its policy is about. `allocated` is what its `users` pods take of what it holds,
    `inner` what none of them gets.
    """

    name: str
    policy: str
    tracked: Collection[str]
    allocatable: Mapping[str, int]
    allocated: Mapping[str, int] = NOTHING
    inner: Mapping[str, int] = NOTHING
    users: int = 0


class Room(NamedTuple):
    """The node. `requested` is all that is booked there, Reservations in full; `twice` what users of the matched ones
    take, who are booked themselves as well. `pods` counts Reservations too. `preemptible` would become free."""

    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    pods: int
    twice: Mapping[str, int] = NOTHING
    preemptible: Mapping[str, int] = NOTHING


class Short(NamedTuple):
    """What a Reservation lacks: asked for, in use, and what there is for users at all."""

    reservation: str
    resource: str
    requested: int
    used: int
    capacity: int


class Fit(NamedTuple):
    """`usable`: the Reservations that do, as they were listed; none and `fits`: the node does without one.

    Else what the node lacks, each name once, and what the Reservations lack.
    """

    fits: bool
    usable: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    reservations: tuple[Short, ...] = ()


def tracked_names(allocatable: Iterable[str], options: Collection[str]) -> set[str]:
    """What a Restricted Reservation is about: its options as far as it holds them, else all that it holds."""
    held = set(allocatable)
    return held & set(options) or held


def allocated_of(users: Iterable[Mapping[str, int]], tracked: Container[str]) -> Amounts:
    """What users take of the tracked resources."""
    total: Amounts = {}
    for requests in users:
        for name, amount in requests.items():
            if amount and name in tracked:
                total[name] = total.get(name, 0) + amount
    return total


def available_of(
    allocatable: Mapping[str, int], allocated: Mapping[str, int], inner: Mapping[str, int] = NOTHING
) -> Amounts:
    """What is left for users. Negative where they take more than there is for them."""
    return {name: amount - allocated.get(name, 0) - inner.get(name, 0) for name, amount in allocatable.items()}


def fit(
    request: Mapping[str, int],
    room: Room,
    matched: Sequence[Matched],
    *,
    must: bool,
    named: str = "",
    preemptible_inside: Mapping[str, Mapping[str, int]] | None = None,
    ignored: Container[str] = NONE_IGNORED,
) -> Fit:
    """Which Reservations of a node serve the pod, or whether the node does without one unless it `must` use one.

    `named`: the only one that it wants. `preemptible_inside`: what would become free within each, by its name.
    """
    inside = preemptible_inside or {}
    usable: list[str] = []
    lacking: list[str] = []
    short: list[Short] = []
    for each in matched:
        if (named and each.name != named) or not (must or concerns(request, each.allocatable)):
            continue
        freed = inside.get(each.name, NOTHING)
        used = {name: max(0, amount - freed.get(name, 0)) for name, amount in each.allocated.items()}
        left = available_of(each.allocatable, used, each.inner)
        of_node = node_lacks(request, room, matched=len(matched), remained=left, ignored=ignored)
        of_reservation = list(reservation_lacks(request, each, freed, ignored=ignored))
        if not of_node and not of_reservation:
            usable.append(each.name)
        lacking += of_node
        short += of_reservation
    if usable:
        return Fit(True, tuple(usable))
    if not must and not lacking:
        lacking = node_lacks(request, room, matched=len(matched), ignored=ignored)
        if not lacking:
            return Fit(True)
    return Fit(False, (), tuple(_in_order(set(lacking))), tuple(short))


def concerns(request: Mapping[str, int], allocatable: Mapping[str, int]) -> bool:
    """Whether the pod asks for anything that the Reservation holds. GPUs have many names."""
    asked = {name for name, amount in request.items() if amount > 0}
    if not asked.isdisjoint(allocatable):
        return True
    return not asked.isdisjoint(FAMILY) and not FAMILY.isdisjoint(allocatable)


def node_lacks(
    request: Mapping[str, int],
    room: Room,
    *,
    matched: int = 0,
    remained: Mapping[str, int] = NOTHING,
    ignored: Container[str] = NONE_IGNORED,
) -> list[str]:
    """What is missing on the node beside what remains of the Reservation. A pod without requests takes a place only."""
    lacking = [PODS] if room.pods - matched + 1 > room.allocatable.get(PODS, 0) else []
    asked = {name: amount for name, amount in request.items() if amount > 0 and name != PODS}
    for name in _in_order({*asked, *NATIVE}) if asked else ():
        if name in ignored:
            continue
        booked = room.requested.get(name, 0) - room.twice.get(name, 0) - room.preemptible.get(name, 0)
        if asked.get(name, 0) > room.allocatable.get(name, 0) - booked + remained.get(name, 0):
            lacking.append(name)
    return lacking


def reservation_lacks(
    request: Mapping[str, int],
    reservation: Matched,
    freed: Mapping[str, int] = NOTHING,
    *,
    ignored: Container[str] = NONE_IGNORED,
) -> Iterator[Short]:
    """What is missing in a Restricted Reservation; other policies take the rest from the node."""
    if reservation.policy != RESTRICTED:
        return
    name = reservation.name
    most = reservation.allocatable.get(PODS)
    if most is not None:
        users = reservation.users - freed.get(PODS, 0)
        if users + 1 > most:
            yield Short(name, PODS, 1, users, most)
    for resource in _in_order(reservation.tracked):
        asked = request.get(resource, 0)
        if asked <= 0 or resource == PODS or resource in ignored:
            continue
        capacity = reservation.allocatable.get(resource, 0) - reservation.inner.get(resource, 0)
        used = max(0, reservation.allocated.get(resource, 0) - freed.get(resource, 0))
        if asked > capacity - used:
            yield Short(name, resource, asked, used, capacity)


def _in_order(found: Iterable[str]) -> list[str]:
    """Pod slots first, then as Kubernetes reports them."""
    listed = in_order(found)
    return [name for name in listed if name == PODS] + [name for name in listed if name != PODS]
