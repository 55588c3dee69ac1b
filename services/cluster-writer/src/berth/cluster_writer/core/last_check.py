"""The last check before a bind (R11): does anybody else hold what this decision takes?

Everybody else means every claim of the writer's own book: bound pods of its view and unsettled decisions that it has
read, also those that the ledger has lost since. A clash among Berth's own claims is the sign of such a loss; one with
a pod that somebody else placed is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from berth.contracts import names
from berth.contracts.ledger import Decision
from berth.transaction.claims import Claim, of_decision

PERCENT_NAMES = (names.GPU_CORE, names.GPU_MEMORY_RATIO)
PERCENT_WHOLE = 100


class Clash(NamedTuple):
    """What is claimed twice, and whether only Berth's own claims are in it."""

    text: str
    is_ours: bool


def clash(
    decision: Decision, claims: Iterable[Claim], allocatable: Mapping[str, int], device_names: frozenset[str]
) -> Clash | None:
    """The first thing that this decision takes and that is not free for it on its node; None when all is well."""
    mine = of_decision(decision)
    others = [claim for claim in claims if (claim.name, claim.uid) != (mine.name, mine.uid)]
    return _devices(mine, others) or _ports(mine, others) or _amounts(mine, others, allocatable, device_names)


def _devices(mine: Claim, others: list[Claim]) -> Clash | None:
    for grant in mine.devices:
        sharers = [
            (claim, other.amounts)
            for claim in others
            for other in claim.devices
            if (other.kind, other.minor) == (grant.kind, grant.minor) and not _is_family(mine, claim)
        ]
        for name in PERCENT_NAMES:
            held = sum(amounts.get(name, 0) for _, amounts in sharers)
            if grant.amounts.get(name, 0) + held > PERCENT_WHOLE:
                asked = grant.amounts.get(name, 0)
                text = f"{name} of {grant.kind} minor {grant.minor} on {mine.node}: {held} held, {asked} asked"
                return Clash(text, all(claim.is_ours for claim, _ in sharers))
    return None


def _is_family(mine: Claim, other: Claim) -> bool:
    """A reservation and its user share what the reservation holds."""
    return mine.reservation == other.uid or (mine.is_reservation and other.reservation == mine.uid)


def _ports(mine: Claim, others: list[Claim]) -> Clash | None:
    for port in mine.ports:
        holder = next((claim for claim in others if port in claim.ports), None)
        if holder is not None:
            return Clash(f"host port {port} on {mine.node} is held by {'/'.join(holder.name)}", holder.is_ours)
    return None


def _amounts(
    mine: Claim, others: list[Claim], allocatable: Mapping[str, int], device_names: frozenset[str]
) -> Clash | None:
    claims = [*others, mine]
    reservations = [claim for claim in claims if claim.is_reservation]
    pods = [claim for claim in claims if not claim.is_reservation]
    for name, amount in mine.amounts.items():
        if amount <= 0 or name in device_names or name == names.PODS:
            continue
        total = sum(claim.amounts.get(name, 0) for claim in pods)
        for reservation in reservations:
            drawn = sum(claim.amounts.get(name, 0) for claim in pods if claim.reservation == reservation.uid)
            total += max(0, reservation.amounts.get(name, 0) - drawn)
        if total > allocatable.get(name, 0):
            text = f"{name} on {mine.node}: {total} claimed of {allocatable.get(name, 0)}"
            return Clash(text, all(claim.is_ours for claim in others))
    return None
