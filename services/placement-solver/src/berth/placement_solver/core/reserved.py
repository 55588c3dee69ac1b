"""Which reservations a pod may draw on, and what it then takes from the node beside them.

Rules of the protocol's reservation matching: ignored pods match nothing here, owners, affinity by name or by
selector, taints, the unschedulable mark; then the amounts, where the Restricted policy forbids taking the rest from
the node. The smallest order goes first, then the fullest reservation, then the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from berth.contracts import kube, names
from berth.contracts.base import Problem, Reason
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod
from berth.placement_solver.core.capacity import Capacity, Reserved
from berth.resources.amounts import format_amount, lacking
from berth.rules.bounded_json import read_annotation
from berth.rules.node_affinity import NodeRule, compile_terms
from berth.rules.reservation_owners import CompiledOwners, PodIdentity, compile_owners
from berth.rules.selectors import all_equal
from berth.rules.taints import UNSCHEDULABLE_TAINT, Tolerations


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

    def reset(self) -> None:
        """RESERVATION starts over."""
        self.known.clear()
        self._uid_of.clear()

    def see(self, name: str, capacity: ReservedCapacity | None) -> None:
        """Take in a reservation, or with None its end."""
        old = self._uid_of.pop(name, None)
        if old is not None:
            self.known.pop(old, None)
        if capacity is not None:
            self._uid_of[name] = capacity.uid
            self.known[capacity.uid] = Known(capacity, compile_owners(capacity.owners))

    def candidates(self, wish: ReservationRequest, capacity: Capacity) -> Iterator[tuple[Known, Reserved]]:
        """Matching reservations that hold room now, best first; amounts are not looked at."""
        found = []
        for uid, known in self.known.items():
            holder = capacity.reserved.get(uid)
            if holder is not None and known.capacity.usable and self._matches(wish, known, holder, capacity):
                found.append((known, holder))
        found.sort(key=lambda pair: (pair[0].capacity.order or 1 << 62, -len(pair[1].users), pair[0].capacity.name))
        yield from found

    def _matches(self, wish: ReservationRequest, known: Known, holder: Reserved, capacity: Capacity) -> bool:
        reserved = known.capacity
        if reserved.allocate_once and holder.users:
            return False
        if not known.owners.accept(wish.identity):
            return False
        if wish.name:
            return reserved.name == wish.name
        if reserved.unschedulable and not wish.tolerations.tolerate(UNSCHEDULABLE_TAINT):
            return False
        if not wish.tolerations.admit(reserved.taints, unschedulable=False):
            return False
        if wish.labels is None and wish.rule is None:
            return True
        node = capacity.nodes.states[capacity.nodes.row(holder.claim.node)]
        labels = {**(node.labels if node else {}), **reserved.labels}
        if wish.labels and not all_equal(wish.labels)(labels):
            return False
        return wish.rule is None or wish.rule.matches(labels, reserved.name)


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


def shortage(known: Known, holder: Reserved, amounts: Mapping[str, int]) -> Reason | None:
    """Why a Restricted reservation does not have enough left; None when it has, or is not restricted."""
    if known.capacity.allocate_policy != "Restricted":
        return None
    reserved = holder.claim.amounts
    tracked = set(known.capacity.restricted) & set(reserved) or set(reserved)
    short = lacking({name: amounts.get(name, 0) for name in sorted(tracked)}, holder.amounts)
    if not short:
        return None
    more = " and ".join(f"{format_amount(name, amount)} {name}" for name, amount in short.items())
    return Reason(
        code="reservation",
        message=f"reservation {known.capacity.name}: Insufficient {', '.join(short)}",
        repair=f"reserve {more} more in {known.capacity.name}, where its node has that",
    )
