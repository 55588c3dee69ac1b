"""A claim that draws on a reservation: is it there, on this node, for this pod, and is enough of it left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from berth.contracts import kube, names
from berth.contracts.base import Problem
from berth.contracts.grants import CPU, ZONE
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod
from berth.placement_solver.core.verify.grants import granted
from berth.placement_solver.core.verify.view import View
from berth.rules.bounded_json import read_annotation
from berth.rules.records import registry
from berth.rules.reservation_owners import PodIdentity, compile_owners
from berth.transaction.claims import Claim


class _Affinity(kube.View, frozen=True, kw_only=True):
    name: str = ""


def draw_problems(claim: Claim, held: Sequence[Claim], arriving: Sequence[Claim], view: View) -> Iterator[str]:
    """What speaks against this claim drawing on its reservation."""
    known = view.reservations.known.get(claim.reservation)
    holder = next((each for each in held if each.is_reservation and each.uid == claim.reservation), None)
    if known is None or holder is None:
        yield f"draws on a reservation {claim.reservation} that holds nothing on node {claim.node}"
        return
    capacity: ReservedCapacity = known.capacity
    if not capacity.usable:
        yield f"reservation {capacity.name} takes no new users"
    users = [each for each in (*held, *arriving) if each.reservation == claim.reservation]
    if capacity.allocate_once and len(users) > 1:
        yield f"reservation {capacity.name} serves one pod only"
    pod = view.book.seen(claim.name)
    if isinstance(pod, Pod):
        yield from _owner_problems(pod, capacity)
    if capacity.allocate_policy == "Restricted":
        whole = holder.amounts
        tracked = set(capacity.restricted) & set(whole) or set(whole)
        for name in sorted(tracked):
            used = sum(each.amounts.get(name, 0) for each in users)
            if claim.amounts.get(name, 0) > 0 and used > whole[name]:
                yield f"reservation {capacity.name} has {whole[name]} of {name}, its users take {used}"
        yield from _grant_problems(claim, holder, users, tracked, capacity.name)


def _grant_problems(claim: Claim, holder: Claim, users: Sequence[Claim], tracked: Set[str], name: str) -> Iterator[str]:
    """What the claim is granted of restricted kinds comes from what the reservation is granted, as far as it goes."""
    restricted = {kind for each in registry.GRANTS if not each.resources.isdisjoint(tracked) for kind in each.kinds}
    held = dict(granted(holder))
    # CPUs and shares of NUMA nodes are asked for by plain resources: of those that it holds some of.
    restricted |= {CPU} if names.CPU in tracked and any(item[0] == CPU for item in held) else set()
    of_zones = {item[2] for item in held if item[0] == ZONE} & tracked
    for item, amount in granted(claim):
        if amount > 0 and (item[0] in restricted or (item[0] == ZONE and item[2] in of_zones)):
            taken = sum(each for user in users for other, each in granted(user) if other == item)
            if taken > held.get(item, 0):
                yield f"reservation {name} holds {held.get(item, 0)} of {' '.join(item)}, its users take {taken}"


def affinity_problems(claim: Claim, pod: Pod, view: View) -> Iterator[str]:
    """A pod that names reservations goes to one of them and nowhere else."""
    if pod.template.labels.get(names.LABEL_RESERVATION_IGNORED) == "true":
        return
    named = read_annotation(pod.template.annotations, names.ANNOTATION_RESERVATION_AFFINITY, _Affinity)
    if named is None:
        return
    if isinstance(named, Problem):
        yield f"{named.field}: {named.message}"
    elif not claim.reservation:
        yield "must use a reservation and draws on none"
    elif named.name:
        known = view.reservations.known.get(claim.reservation)
        if known is None or known.capacity.name != named.name:
            yield f"wants reservation {named.name}"


def _owner_problems(pod: Pod, capacity: ReservedCapacity) -> Iterator[str]:
    template = pod.template
    if template.labels.get(names.LABEL_RESERVATION_IGNORED) == "true":
        yield "must not be booked on a reservation"
    identity = PodIdentity(pod.namespace, pod.name, pod.uid, template.labels, tuple(pod.owners))
    if not compile_owners(capacity.owners).accept(identity):
        yield f"is no owner of reservation {capacity.name}"
