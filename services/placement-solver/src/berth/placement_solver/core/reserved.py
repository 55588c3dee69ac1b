"""Which reservations a pod may draw on, and what it then takes from the node beside them.

Rules of the protocol's reservation matching: ignored pods match nothing here, owners, affinity by name or by
selector, taints, the unschedulable mark; then the amounts, where the Restricted policy forbids taking the rest from
the node. The smallest order goes first, then the fullest reservation, then the name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

from berth.contracts import kube, names
from berth.contracts.base import Problem, Reason
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod
from berth.placement_solver.core.capacity import Capacity, Reserved
from berth.placement_solver.core.owner_index import OwnerIndex
from berth.resources.amounts import format_amount, lacking
from berth.rules.bounded_json import read_annotation
from berth.rules.node_affinity import NodeRule, compile_terms
from berth.rules.reservation_owners import CompiledOwners, PodIdentity, compile_owners
from berth.rules.selectors import all_equal
from berth.rules.taints import UNSCHEDULABLE_TAINT, Tolerations

Check: TypeAlias = Literal["owners", "name", "unschedulable", "taint", "affinity"]
"""The checks of the matching, in their order; the first that fails decides."""


class RequiredTerms(kube.View, frozen=True, kw_only=True):
    """`requiredDuringSchedulingIgnoredDuringExecution` of the affinity annotation."""

    reservation_selector_terms: list[kube.NodeSelectorTerm] = []


class ReservationAffinity(kube.View, frozen=True, kw_only=True):
    """The affinity annotation of a pod that must use a reservation."""

    name: str = ""
    reservation_selector: dict[str, str] | None = None
    required_during_scheduling_ignored_during_execution: RequiredTerms | None = None
    tolerations: list[kube.Toleration] | None = None


class ReservationRequest(NamedTuple):
    """What a pod says about reservations. `must` means that it goes nowhere else."""

    identity: PodIdentity
    must: bool = False
    name: str = ""
    labels: Mapping[str, str] | None = None
    rule: NodeRule | None = None
    tolerations: Tolerations = Tolerations(())
    problem: Problem | None = None


@dataclass(eq=False)
class Known:
    """A reservation as reservation-manager publishes it, with its owners compiled."""

    capacity: ReservedCapacity
    owners: CompiledOwners


class Reservations:
    """The reservations that may be used, by uid."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self._uid_of: dict[str, str] = {}
        self._index = OwnerIndex()

    def reset(self) -> None:
        """RESERVATION starts over."""
        self.known.clear()
        self._uid_of.clear()
        self._index.clear()

    def see(self, name: str, capacity: ReservedCapacity | None) -> None:
        """Take in a reservation, or with None its end."""
        old = self._uid_of.pop(name, None)
        if old is not None:
            self._forget(old)
        if capacity is not None:
            self._forget(capacity.uid)
            self._uid_of[name] = capacity.uid
            known = self.known[capacity.uid] = Known(capacity, compile_owners(capacity.owners))
            if not known.owners.problems:
                self._index.add(capacity.uid, capacity.owners)

    def _forget(self, uid: str) -> None:
        if self.known.pop(uid, None) is not None:
            self._index.remove(uid)

    def candidates(self, wish: ReservationRequest, capacity: Capacity) -> Iterator[tuple[Known, Reserved]]:
        """Matching reservations that hold capacity now, best first; amounts are not looked at."""
        found = [
            (known, holder)
            for uid in self._index.may_accept(wish.identity)
            if (holder := _held(known := self.known[uid], capacity)) is not None
            and _failed(wish, known, holder, capacity) is None
        ]
        found.sort(key=lambda pair: (pair[0].capacity.order or 1 << 62, -len(pair[1].users), pair[0].capacity.name))
        yield from found

    def checked(self, wish: ReservationRequest, capacity: Capacity) -> Iterator[tuple[Known, Reserved, Check | None]]:
        """All that hold capacity and may be used now, each with the check that keeps the pod off; None: it matches."""
        may_accept = set(self._index.may_accept(wish.identity))
        for uid, known in self.known.items():
            holder = _held(known, capacity)
            if holder is not None:
                yield known, holder, _failed(wish, known, holder, capacity) if uid in may_accept else "owners"

    def no_match(self, wish: ReservationRequest, capacity: Capacity) -> Reason:
        """Why a pod that needs a reservation finds none: which check rules out how many of them."""
        counts = Counter(failed for _, _, failed in self.checked(wish, capacity) if failed is not None)
        ruled_out = ", ".join(f"{counts[check]} by {check}" for check in get_args(Check) if counts[check])
        return Reason(
            code="reservation",
            message="node(s) no reservations match reservation affinity" + (ruled_out and f", ruled out {ruled_out}"),
            repair="create a Reservation that names this pod as owner, or drop the reservation affinity",
        )


def _held(known: Known, capacity: Capacity) -> Reserved | None:
    """What the reservation holds, if it may be used now."""
    reserved = known.capacity
    holder = capacity.reserved.get(reserved.uid)
    usable = holder is not None and reserved.usable and not (reserved.allocate_once and holder.users)
    return holder if usable else None


def _failed(wish: ReservationRequest, known: Known, holder: Reserved, capacity: Capacity) -> Check | None:
    reserved = known.capacity
    if not known.owners.accept(wish.identity):
        return "owners"
    if wish.name:
        return None if reserved.name == wish.name else "name"
    if reserved.unschedulable and not wish.tolerations.tolerate(UNSCHEDULABLE_TAINT):
        return "unschedulable"
    if not wish.tolerations.admit(reserved.taints, unschedulable=False):
        return "taint"
    if wish.labels is None and wish.rule is None:
        return None
    node = capacity.nodes.state(holder.claim.node)
    labels = {**(node.labels if node else {}), **reserved.labels}
    if wish.labels and not all_equal(wish.labels)(labels):
        return "affinity"
    return None if wish.rule is None or wish.rule.matches(labels, reserved.name) else "affinity"


def reservation_request_of(pod: Pod) -> ReservationRequest | None:
    """What the pod says about reservations; None when it must not be booked on any (reservation-ignored)."""
    template = pod.template
    if template.labels.get(names.LABEL_RESERVATION_IGNORED) == "true":
        return None
    identity = PodIdentity(
        namespace=pod.namespace, name=pod.name, uid=pod.uid, labels=template.labels, owners=tuple(pod.owners)
    )
    text = template.annotations.get(names.ANNOTATION_RESERVATION_AFFINITY)
    if not text:
        return ReservationRequest(identity)
    read = read_annotation(template.annotations, names.ANNOTATION_RESERVATION_AFFINITY, ReservationAffinity)
    if isinstance(read, Problem):
        return ReservationRequest(identity, must=True, problem=read)
    if read is None:
        return ReservationRequest(identity)
    required = read.required_during_scheduling_ignored_during_execution
    field = f"metadata.annotations[{names.ANNOTATION_RESERVATION_AFFINITY}]"
    rule = compile_terms(required.reservation_selector_terms, field) if required else None
    return ReservationRequest(
        identity,
        must=True,
        name=read.name,
        labels=read.reservation_selector,
        rule=rule,
        tolerations=Tolerations(read.tolerations or ()),
        problem=rule.problems[0] if rule and rule.problems else None,
    )


def restricted(known: Known, holder: Reserved) -> frozenset[str]:
    """The resources of which its users get nothing from the node beside it; empty where it is not Restricted."""
    if known.capacity.allocate_policy != "Restricted":
        return frozenset()
    reserved = holder.claim.amounts.keys()
    return frozenset(known.capacity.restricted) & reserved or frozenset(reserved)


def shortage(known: Known, holder: Reserved, amounts: Mapping[str, int]) -> Reason | None:
    """Why a Restricted reservation does not have enough left; None when it has, or is not restricted."""
    tracked = restricted(known, holder)
    if not tracked:
        return None
    short = lacking({name: amounts.get(name, 0) for name in sorted(tracked)}, holder.amounts)
    if not short:
        return None
    more = " and ".join(f"{format_amount(name, amount)} {name}" for name, amount in short.items())
    return Reason(
        code="reservation",
        message=f"reservation {known.capacity.name}: Insufficient {', '.join(short)}",
        repair=f"reserve {more} more in {known.capacity.name}, where its node has that",
    )
