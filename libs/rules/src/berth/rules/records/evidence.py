"""What the records of a bound object count for, and what is granted at all: for books, checks and the auditor.

While a decision says what a pod was granted, no record does. Else a record says which things a pod holds, and its
request how much of each; one that names fewer than the request takes is as good as none. A pod that asks for nothing of
a kind holds nothing of it beyond its request, whatever its record says, and blocks nobody when the record cannot be
read. Cards that kubelet picks are in no record: which they are kubelet says, or nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from berth.contracts.ledger import Grant
from berth.contracts.state import Device, PodTemplate
from berth.rules.devices.kubelet_counts import NUMBER, holds_number, number_of
from berth.rules.records import registry
from berth.rules.records.seam import GrantRecord


class Held(NamedTuple):
    """What a bound object holds within its node. `unreadable` names the kinds of which it holds nobody knows which;
    `by_kubelet`: its cards are those that kubelet has picked."""

    grants: tuple[Grant, ...] = ()
    unreadable: tuple[str, ...] = ()
    by_kubelet: bool = False


NOTHING = Held()


def held_by_pod(
    template: PodTemplate, decided: tuple[Grant, ...] | None, picked: tuple[Grant, ...] | None = None
) -> Held:
    """Of a bound pod; `decided` is what the decision that stands for it grants, None without one, and `picked` the
    cards that kubelet says it has given to the pod, None where it does not say.

    Where those are not as many as are asked for, kubelet may have more to say: the pod holds a number.
    """
    grants: tuple[Grant, ...] = decided or ()
    unreadable: list[str] = []
    by_kubelet = False
    for record in registry.GRANTS:
        if decided is None:
            mine = record.held(record.read(template.annotations) or (), template)
            grants += mine
        else:
            mine = tuple(each for each in decided if each.kind in record.kinds)
        if mine or not record.asks(template):
            continue
        unknown = record.unknown(template.requests)
        if unknown == NUMBER and picked and len(picked) == number_of(template.requests):
            grants, by_kubelet = grants + picked, True
        else:
            unreadable.append(unknown)
    return Held(grants, tuple(unreadable), by_kubelet) if grants or unreadable else NOTHING


def held_by_reservation(annotations: Mapping[str, str], template: PodTemplate) -> Held:
    """Of a Reservation that has its node, as written."""
    grants: tuple[Grant, ...] = ()
    unreadable: list[str] = []
    for record in registry.GRANTS:
        mine = record.read(annotations)
        if mine is None:
            unreadable.append(record.name)
        elif mine:
            grants += record.completed(mine, template)
    return Held(grants, tuple(unreadable))


def within(grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
    """Of these grants those that the request explains."""
    return tuple(each for record in registry.GRANTS for each in record.within(grants, template)) if grants else ()


def blocked(grants: Iterable[Grant], unreadable: Iterable[str]) -> str:
    """The first of what is unreadable that keeps these grants from being given out; empty: nothing does."""
    kinds = {grant.kind for grant in grants}
    found = sorted({name for name in unreadable if any(each.blocks(name) & kinds for each in registry.GRANTS)})
    return found[0] if found else ""


def by_number(amounts: Mapping[str, int], grants: Iterable[Grant]) -> tuple[str, ...]:
    """What of these amounts is held by number: nobody knows which it is (`Held.unreadable`)."""
    return (NUMBER,) if holds_number(amounts, grants) else ()


def whole(kind: str, resource: str) -> int | None:
    """How much one of this kind has of a resource, where all have the same; None: only its node says."""
    record = _record_of(kind)
    return record.whole(kind, resource) if record is not None else None


def called(grant: Grant) -> str:
    """How texts call what was granted."""
    record = _record_of(grant.kind)
    return record.called(grant) if record is not None else f"{grant.kind} {grant.id}"


def broken(grant: Grant, device: Device | None) -> str:
    """What is wrong with it, by the Device object of its node, if there is one; empty: nothing."""
    record = _record_of(grant.kind)
    return record.broken(grant, device) if record is not None else ""


def _record_of(kind: str) -> GrantRecord | None:
    return next((each for each in registry.GRANTS if kind in each.kinds), None)
