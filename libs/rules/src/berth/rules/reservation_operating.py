"""Placeholders: pods that run in the place of a Reservation, and hand it over to a pod of their owners.

It stands for a Reservation of what it asks for, for one user, who may take the rest from the node (Aligned). A kubelet
counts both pods, so the placeholder has to be gone before its user is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube import ReservationOwner
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.reservation_match import failed_check, reservation_request_of
from berth.rules.reservation_owners import PodIdentity, compile_owners

MODE: Final = "Reservation"

OWNERS_FIELD: Final = annotation_field(names.ANNOTATION_RESERVATION_OWNERS)
NOBODYS: Final = Problem(field=OWNERS_FIELD, message="names no owner, so the pod hands over to nobody")


class Placeholder(NamedTuple):
    """What matching looks at: `accept` says whose it is."""

    capacity: ReservedCapacity
    accept: Callable[[PodIdentity], bool]


def is_placeholder(labels: Mapping[str, str]) -> bool:
    """Whether a pod with these labels runs in the place of a Reservation."""
    return labels.get(names.LABEL_OPERATING_MODE) == MODE


def placeholder_matchable(*, phase: str, ready: bool, node: str) -> bool:
    """Whether it can hand anything over now: it runs and is ready."""
    return phase == "Running" and ready and bool(node)


def placeholder_of(pod: Pod) -> Placeholder:
    """The pod as a Reservation. Owners that cannot be read are nobody."""
    owners = _owners_of(pod.template.annotations)
    listed = owners if isinstance(owners, list) else []
    capacity = ReservedCapacity(
        name=pod.name, uid=pod.uid, revision=pod.version, phase="", labels=pod.template.labels, owners=listed
    )
    return Placeholder(capacity, compile_owners(listed, OWNERS_FIELD).accept)


def owner_problems(annotations: Mapping[str, str]) -> list[Problem]:
    """What is wrong with whose a placeholder says that it is, by field; it is nobody's then."""
    owners = _owners_of(annotations)
    if isinstance(owners, list):
        return list(compile_owners(owners, OWNERS_FIELD).problems) if owners else [NOBODYS]
    return [NOBODYS if owners is None else owners]


def _owners_of(annotations: Mapping[str, str]) -> list[ReservationOwner] | Problem | None:
    return read_annotation(annotations, names.ANNOTATION_RESERVATION_OWNERS, list[ReservationOwner])


def why_not_handed_over(pod: Pod, user: Pod, node_labels: Mapping[str, str]) -> str:
    """What keeps a pod from handing its place over to this user; empty: nothing does."""
    if not is_placeholder(pod.template.labels):
        return "is no placeholder"
    if pod.deleting or not placeholder_matchable(phase=pod.phase, ready=pod.ready, node=pod.node):
        return "does not run, or is not ready"
    wish = reservation_request_of(user)
    if wish is None or wish.problem is not None:
        return "draws on no reservation"
    placeholder = placeholder_of(pod)
    return failed_check(wish, placeholder.capacity, placeholder.accept, node_labels, pod.template.requests) or ""


def current_owner_note(namespace: str, name: str, uid: str) -> dict[str, str]:
    """The annotation of a placeholder that hands over: to whom."""
    reference = {"namespace": namespace, "name": name, "uid": uid, "kind": "Pod", "apiVersion": "v1"}
    return {names.ANNOTATION_RESERVATION_CURRENT_OWNER: msgspec.json.encode(reference).decode()}


class _Reference(msgspec.Struct, frozen=True):
    uid: str = ""


def current_owner_of(annotations: Mapping[str, str]) -> str:
    """Uid of the pod that a placeholder hands over to; empty: of none, or nobody can read it."""
    read = read_annotation(annotations, names.ANNOTATION_RESERVATION_CURRENT_OWNER, _Reference)
    return read.uid if read is not None and not isinstance(read, Problem) else ""
