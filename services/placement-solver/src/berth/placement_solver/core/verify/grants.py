"""The list of laws of what is granted within a node: does it serve the object, and how much is there of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Node, PodTemplate
from berth.placement_solver.core.verify.laws import devices
from berth.transaction.claims import Claim

Item = tuple[str, ...]
"""Kind, id and resource of something that is granted."""


class GrantLaw(NamedTuple):
    """The law of some kinds of grants.

    `problems` compares those of a claim with its object's request and annotations, and with what the node has.
    `capacity` is how much of each there is on a node.
    """

    kinds: frozenset[str]
    problems: Callable[[Claim, PodTemplate, Node, NodeInventory | None], Iterator[str]]
    capacity: Callable[[Node, NodeInventory | None], dict[Item, int]]


LAWS: Final = (
    GrantLaw(
        devices.KINDS,
        devices.device_problems,
        lambda node, inventory: devices.device_capacity(inventory),
    ),
)


def grant_problems(claim: Claim, template: PodTemplate, node: Node, inventory: NodeInventory | None) -> Iterator[str]:
    """What is wrong with what a claim is granted; without a law nothing is granted."""
    known = frozenset[str]().union(*(law.kinds for law in LAWS))
    for kind in dict.fromkeys(grant.kind for grant in claim.grants if grant.kind not in known):
        yield f"was granted {kind}, for which there is no law"
    for law in LAWS:
        yield from law.problems(claim, template, node, inventory)


def capacity(node: Node, inventory: NodeInventory | None) -> dict[Item, int]:
    """How much there is on a node of whatever is granted one by one."""
    return {item: amount for law in LAWS for item, amount in law.capacity(node, inventory).items()}


def granted(claim: Claim) -> Iterable[tuple[Item, int]]:
    """What a claim takes of that."""
    for grant in claim.grants:
        for name, amount in grant.amounts.items():
            yield (grant.kind, grant.id, name), amount
