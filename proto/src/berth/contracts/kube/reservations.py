"""Reservations: capacity kept on a node as for a pod of a template, the owners who may use it, and the schedules by
which they are made."""

from __future__ import annotations

from typing import Any

from berth.contracts.base import Integer
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


class PreAllocationPolicy(View, frozen=True, kw_only=True):
    """Which pods a Reservation may take over, and whether more than one."""

    mode: str = ""
    enable_multiple: bool = False


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
    pre_allocation_policy: PreAllocationPolicy | None = None


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


class ScheduleTemplateMeta(View, frozen=True, kw_only=True):
    """metadata of a ReservationSchedule's template."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ScheduleTemplate(View, frozen=True, kw_only=True):
    """spec.template of a ReservationSchedule: the Reservation of each window, its spec kept as read."""

    metadata: ScheduleTemplateMeta = ScheduleTemplateMeta()
    spec: dict[str, Any] | None = None


class ReservationScheduleSpec(View, frozen=True, kw_only=True):
    """spec of a ReservationSchedule."""

    cron: str = ""
    time_zone: str = ""
    duration: str = ""
    lead: str = ""
    displaces: str = ""
    template: ScheduleTemplate | None = None


class ScheduledWindow(View, frozen=True, kw_only=True):
    """status.windows[] of a ReservationSchedule: one window that is open or about to be, and what it costs.

    `amount_hours` is what the Reservation holds times the hours it does so; `used_percent` the share of that in use
    now; `waiting_pods` how many of the pods that are told to be unschedulable its remainder has the amounts for.
    """

    start: str
    end: str
    reservation: str
    phase: str
    amount_hours: dict[str, str] = {}
    used_percent: dict[str, Integer] = {}
    waiting_pods: Integer = 0


class ScheduleProblem(View, frozen=True, kw_only=True):
    """status.problems[] of a ReservationSchedule."""

    field: str
    message: str


class ReservationScheduleStatus(View, frozen=True, kw_only=True):
    """status of a ReservationSchedule. `last_made` is the start of the newest window that had its Reservation, `next`
    the start of the one after those listed; RFC 3339, UTC."""

    windows: list[ScheduledWindow] | None = None
    next: str = ""
    last_made: str = ""
    problems: list[ScheduleProblem] | None = None


class ReservationSchedule(View, frozen=True, kw_only=True):
    """scheduling.berth.sh/v1alpha1 ReservationSchedule."""

    metadata: Meta
    spec: ReservationScheduleSpec = ReservationScheduleSpec()
    status: ReservationScheduleStatus = ReservationScheduleStatus()
