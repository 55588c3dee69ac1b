"""The list of laws of what is granted within a node: does it serve the object, and how much is there of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Node, PodTemplate
from berth.contracts.topology import NodeTopology
from berth.placement_solver.core.verify.laws import cores, devices, zones
from berth.placement_solver.core.verify.view import View
from berth.rules.devices.templates import Templates
from berth.rules.scheduler_config import DEFAULT, DeviceShareArgs, Profile
from berth.transaction.claims import Claim

Item = tuple[str, ...]
"""Kind, id and resource of something that is granted."""


class Place(NamedTuple):
    """A node, and what STATE and INVENTORY say of what is within it."""

    node: Node
    inventory: NodeInventory | None = None
    topology: NodeTopology | None = None


class Wish(NamedTuple):
    """What an object asks for, the profile that it is placed by, and the sizes that virtual NPUs may have."""

    template: PodTemplate
    profile: Profile = DEFAULT
    npu_templates: Templates = {}


def wish_of(template: PodTemplate, view: View) -> Wish:
    """The wish of an object."""
    profile = view.profile_of(template.scheduler)
    return Wish(template, profile, view.npu_templates_of(profile))


WishOf = Callable[[Claim], Wish | None]
"""What the object of a claim asks for; None: it is not known."""


def _nothing(place: Place, held: Sequence[Claim], arriving: Sequence[Claim], wish_of: WishOf) -> Iterator[str]:
    yield from ()


class GrantLaw(NamedTuple):
    """The law of some kinds of grants.

    `problems` compares those of a claim with what its object asks for, and with what the node has. `capacity` is how
    much of each there is on a node. `beyond` says what is too much where what others take of a thing does not stand in
    their grants alone.
    """

    kinds: frozenset[str]
    problems: Callable[[Claim, Wish, Place], Iterator[str]]
    capacity: Callable[[Place], dict[Item, int]]
    beyond: Callable[[Place, Sequence[Claim], Sequence[Claim], WishOf], Iterator[str]] = _nothing


def template_of(wish: Wish | None) -> PodTemplate | None:
    """What is asked for, if that is known."""
    return wish.template if wish is not None else None


LAWS: Final = (
    GrantLaw(
        devices.KINDS,
        lambda claim, wish, place: devices.device_problems(
            claim,
            wish.template,
            place.node,
            place.inventory,
            npu_templates=wish.npu_templates,
            args=wish.profile.args_of("DeviceShare", DeviceShareArgs),
        ),
        lambda place: devices.device_capacity(place.inventory),
        lambda place, held, arriving, wish_of: chain(
            devices.cut_problems(place.inventory, held, arriving),
            devices.root_problems(place.inventory, held, arriving),
        ),
    ),
    GrantLaw(
        cores.KINDS,
        lambda claim, wish, place: cores.core_problems(claim, wish.template, place.node, place.topology, wish.profile),
        lambda place: cores.core_capacity(place.topology),
        lambda place, held, arriving, wish_of: cores.zones_beyond(
            place.node, place.topology, held, arriving, lambda claim: template_of(wish_of(claim))
        ),
    ),
    GrantLaw(
        frozenset(),  # of devices and NUMA nodes together
        lambda claim, wish, place: zones.zone_problems(
            claim, wish.template, place.node, place.inventory, place.topology, wish.profile
        ),
        lambda place: {},
    ),
)


def grant_problems(claim: Claim, wish: Wish, place: Place) -> Iterator[str]:
    """What is wrong with what a claim is granted; without a law nothing is granted."""
    if claim.grants:
        known = frozenset[str]().union(*(law.kinds for law in LAWS))
        for kind in dict.fromkeys(grant.kind for grant in claim.grants if grant.kind not in known):
            yield f"was granted {kind}, for which there is no law"
    for law in LAWS:
        yield from law.problems(claim, wish, place)


def capacity(place: Place) -> dict[Item, int]:
    """How much there is on a node of whatever is granted one by one."""
    return {item: amount for law in LAWS for item, amount in law.capacity(place).items()}


def beyond(place: Place, held: Sequence[Claim], arriving: Sequence[Claim], wish_of: WishOf) -> Iterator[str]:
    """What is too much with the claims that arrive beside those that hold."""
    for law in LAWS:
        yield from law.beyond(place, held, arriving, wish_of)


def granted(claim: Claim) -> Iterable[tuple[Item, int]]:
    """What a claim takes of that."""
    for grant in claim.grants:
        for name, amount in grant.amounts.items():
            yield (grant.kind, grant.id, name), amount
