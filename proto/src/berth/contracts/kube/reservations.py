"""Reservations: capacity kept on a node as for a pod of a template, and the owners who may use it."""

from __future__ import annotations

from berth.contracts.kube.meta import Condition, Meta, Quantity, View
from berth.contracts.kube.pods import PodSpec
from berth.contracts.kube.selectors import LabelSelector, Taint


class ObjectReference(View, frozen=True, kw_only=True):
    """A reference to an object; empty fields say nothing."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class ControllerReference(View, frozen=True, kw_only=True):
    """owners[].controller of a Reservation; `controller` is compared only when given."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ReservationOwner(View, frozen=True, kw_only=True):
    """spec.owners[] of a Reservation: its parts have to hold together."""

    object: ObjectReference | None = None
    controller: ControllerReference | None = None
    label_selector: LabelSelector | None = None


class PodTemplateMeta(View, frozen=True, kw_only=True):
    """metadata of a pod template."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodTemplate(View, frozen=True, kw_only=True):
    """spec.template of a Reservation."""

    metadata: PodTemplateMeta = PodTemplateMeta()
    spec: PodSpec = PodSpec()


class ReservationSpec(View, frozen=True, kw_only=True):
    """spec of a Reservation."""

    template: PodTemplate | None = None
    owners: list[ReservationOwner] | None = None
    ttl: str | None = None
    expires: str | None = None
    allocate_once: bool | None = None
    allocate_policy: str = ""
    unschedulable: bool = False
    taints: list[Taint] | None = None
    pre_allocation: bool = False


class ReservationCondition(Condition, frozen=True, kw_only=True):
    """A condition of a Reservation, which carries a probe time as well."""

    last_probe_time: str | None = None


class ReservationStatus(View, frozen=True, kw_only=True):
    """status of a Reservation."""

    phase: str = ""
    node_name: str = ""
    allocatable: dict[str, Quantity] | None = None
    allocated: dict[str, Quantity] | None = None
    conditions: list[ReservationCondition] | None = None
    current_owners: list[ObjectReference] | None = None


class Reservation(View, frozen=True, kw_only=True):
    """scheduling.koordinator.sh/v1alpha1 Reservation."""

    metadata: Meta
    spec: ReservationSpec = ReservationSpec()
    status: ReservationStatus = ReservationStatus()
