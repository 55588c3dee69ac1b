"""Snapshots of who holds what, to compare what was rebuilt with what was, and what is believed with what is.

A snapshot holds bound pods (where, with which devices), what each quota group was charged, and placed reservations with
their users. Decisions that were not carried out yet are in none: they are open, not rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from berth.contracts import names
from berth.contracts.ledger import Grant
from berth.invariants.report import Finding
from berth.resources.amounts import Amounts, add, add_into
from berth.rules.records.registry import QUOTA
from berth.transaction.claims import Claim

if TYPE_CHECKING:
    from berth.invariants.facts import Facts, Seen

Devices = tuple[tuple[str, str, tuple[tuple[str, int], ...]], ...]


class Placement(NamedTuple):
    """A bound pod."""

    name: str
    node: str
    devices: Devices
    quota: str
    reservation: str


class Snapshot(NamedTuple):
    """Placements and reservations by uid, charges by `tree/group`; a reservation has its name, node and users."""

    placements: dict[str, Placement]
    quotas: dict[str, Amounts]
    reservations: dict[str, tuple[str, str, tuple[str, ...]]]


def snapshot_of_claims(claims: Iterable[Claim]) -> Snapshot:
    """From the claims of a book, or of objects in STATE. Claims of decisions are left out."""
    placements: dict[str, Placement] = {}
    quotas: dict[str, Amounts] = {}
    placed: dict[str, tuple[str, str]] = {}
    for claim in claims:
        if not claim.is_bound:
            continue
        if claim.is_reservation:
            placed[claim.uid] = (claim.name[1], claim.node)
            continue
        text = "/".join(claim.name)
        placements[claim.uid] = Placement(text, claim.node, _devices(claim.grants), claim.quota, claim.reservation)
        if claim.quota:
            add_into(quotas.setdefault(claim.quota, {}), add(claim.amounts, claim.surcharge))
    return Snapshot(placements, quotas, _with_users(placed, placements))


def snapshot_of_facts(facts: Facts) -> Snapshot:
    """From the objects of the API."""
    placements: dict[str, Placement] = {}
    quotas: dict[str, Amounts] = {}
    for seen in facts.pods.values():
        if seen.node and seen.is_live:
            placements[seen.uid] = placement = _placement(seen)
            if placement.quota:
                charged = add(seen.amounts, QUOTA.read_surcharge(seen.annotations))
                add_into(quotas.setdefault(placement.quota, {}), charged)
    placed = {
        each.metadata.uid: (each.metadata.name, each.status.node_name)
        for each in facts.world.reservations
        if each.status.node_name and each.status.phase not in ("Succeeded", "Failed")
    }
    return Snapshot(placements, quotas, _with_users(placed, placements))


def differences(left: Snapshot, right: Snapshot, left_says: str = "before", right_says: str = "after") -> list[Finding]:
    """What two snapshots do not have in common; empty when they are equal."""
    found: list[Finding] = []

    def compare(kind: str, one: Mapping[str, object], other: Mapping[str, object]) -> None:
        for key in sorted(one.keys() | other.keys()):
            here, there = one.get(key), other.get(key)
            if here != there:
                text = f"{kind} {key}: {left_says} {_told(here)}, {right_says} {_told(there)}"
                found.append(Finding(f"{kind} {key}", text))

    compare("pod", left.placements, right.placements)
    compare("quota", left.quotas, right.quotas)
    compare("reservation", left.reservations, right.reservations)
    return found


def believed_otherwise(facts: Facts) -> Iterator[Finding]:
    """Where STATE, if it is given, shows another snapshot than the API, once all is quiet."""
    believed = facts.world.believed
    if believed is None or not facts.world.is_quiet:
        return
    yield from differences(snapshot_of_facts(facts), believed, "the API says", "STATE says")


def _placement(seen: Seen) -> Placement:
    quota = seen.annotations.get(names.ANNOTATION_QUOTA, "")
    return Placement(seen.text, seen.node, _devices(seen.held_devices), quota, seen.reservation)


def _devices(grants: Iterable[Grant]) -> Devices:
    return tuple(sorted((grant.kind, grant.id, tuple(sorted(grant.amounts.items()))) for grant in grants))


def _with_users(
    placed: Mapping[str, tuple[str, str]], placements: Mapping[str, Placement]
) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    users: dict[str, list[str]] = {}
    for uid, placement in placements.items():
        if placement.reservation:
            users.setdefault(placement.reservation, []).append(uid)
    return {uid: (name, node, tuple(sorted(users.get(uid, ())))) for uid, (name, node) in placed.items()}


def _told(value: object) -> str:
    if value is None:
        return "nothing"
    return str(value._asdict() if isinstance(value, Placement) else value)
