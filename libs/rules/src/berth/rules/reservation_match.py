"""Is a Reservation meant for a pod, and does the pod want it? Amounts are looked at elsewhere (`reservation_fit`).

The first check that fails is the reason. Taints and the unschedulable mark keep every pod off that does not tolerate
them, whether it asks for a Reservation or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from berth.contracts import kube, names
from berth.contracts.base import Problem
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.node_affinity import NodeRule, compile_terms
from berth.rules.reservation_borrowers import ignores_reservations
from berth.rules.reservation_exact import ExactMatch, sizes_are_equal
from berth.rules.reservation_owners import PodIdentity
from berth.rules.selectors import all_equal
from berth.rules.taints import UNSCHEDULABLE_TAINT, Tolerations

Check: TypeAlias = Literal["owners", "name", "unschedulable", "taint", "affinity", "exactMatch"]
"""The checks in their order; the first that fails decides."""


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
    """What a pod says about reservations. `must` means that it goes nowhere else, `exact` are the resources in which
    sizes have to be equal. With a `problem` it goes nowhere."""

    identity: PodIdentity
    must: bool = False
    name: str = ""
    labels: Mapping[str, str] | None = None
    rule: NodeRule | None = None
    tolerations: Tolerations = Tolerations(())
    exact: tuple[str, ...] = ()
    requests: Mapping[str, int] = {}
    problem: Problem | None = None


def reservation_request_of(pod: Pod) -> ReservationRequest | None:
    """What the pod says about reservations; None when it must not be booked on any (reservation-ignored)."""
    return request_of(_identity_of(pod), pod.template.annotations, pod.template.requests)


def alike_request_of(pod: Pod, like: ReservationRequest | None) -> ReservationRequest | None:
    """`reservation_request_of` for a pod with the template of one for which that said `like`."""
    return None if like is None else ReservationRequest(_identity_of(pod), *like[1:])


def _identity_of(pod: Pod) -> PodIdentity:
    return PodIdentity(pod.namespace, pod.name, pod.uid, pod.template.labels, tuple(pod.owners))


def request_of(
    identity: PodIdentity, notes: Mapping[str, str], requests: Mapping[str, int]
) -> ReservationRequest | None:
    """`reservation_request_of` for who has a pod's labels, annotations and requests only."""
    if ignores_reservations(identity.labels):
        return None
    wish = ReservationRequest(identity, requests=requests)
    exact = read_annotation(notes, names.ANNOTATION_RESERVATION_EXACT, ExactMatch)
    if isinstance(exact, Problem):
        return wish._replace(must=True, problem=exact)
    if exact is not None:
        wish = wish._replace(exact=tuple(exact.resource_names))
    read = read_annotation(notes, names.ANNOTATION_RESERVATION_AFFINITY, ReservationAffinity)
    if isinstance(read, Problem):
        return wish._replace(must=True, problem=read)
    if read is None:
        return wish
    required = read.required_during_scheduling_ignored_during_execution
    field = annotation_field(names.ANNOTATION_RESERVATION_AFFINITY)
    rule = compile_terms(required.reservation_selector_terms, field) if required else None
    return wish._replace(
        must=True,
        name=read.name,
        labels=read.reservation_selector,
        rule=rule,
        tolerations=Tolerations(read.tolerations or ()),
        problem=rule.problems[0] if rule and rule.problems else None,
    )


def failed_check(
    wish: ReservationRequest,
    reserved: ReservedCapacity,
    accept: Callable[[PodIdentity], bool],
    node_labels: Mapping[str, str],
    held: Mapping[str, int],
) -> Check | None:
    """The check that keeps the pod off this Reservation; None: it matches.

    `accept` is that of its compiled owners, `held` what it holds, `node_labels` those of its node.
    """
    if not accept(wish.identity):
        return "owners"
    if wish.name:
        if reserved.name != wish.name:
            return "name"
    elif reserved.unschedulable and not wish.tolerations.tolerate(UNSCHEDULABLE_TAINT):
        return "unschedulable"
    elif not wish.tolerations.admit(reserved.taints, unschedulable=False):
        return "taint"
    elif not _is_selected(wish, reserved, node_labels):
        return "affinity"
    return None if sizes_are_equal(wish.requests, held, wish.exact) else "exactMatch"


def _is_selected(wish: ReservationRequest, reserved: ReservedCapacity, node_labels: Mapping[str, str]) -> bool:
    if wish.labels is None and wish.rule is None:
        return True
    labels = {**node_labels, **reserved.labels}
    if wish.labels and not all_equal(wish.labels)(labels):
        return False
    return wish.rule is None or wish.rule.matches(labels, reserved.name)
