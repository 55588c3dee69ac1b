"""Reservations, and schedules of them."""

from __future__ import annotations

from typing import Any

from berth.contracts.base import Integer, Message, Problem
from berth.contracts.kube import (
    ObjectReference,
    ReservationCondition,
    ReservationOwner,
    ReservationScheduleStatus,
    Taint,
)
from berth.contracts.state.amounts import Amounts
from berth.contracts.state.pods import PodTemplate


class Reservation(Message, frozen=True, kw_only=True, tag="reservation.seen.v1"):
    """A Reservation.

    `ttl_s` 0 means for ever; None that `expires` counts instead, or that the ttl could not be read (a problem then);
    with neither given it is a day. `required_node` is the node that the template names, `namespace` the template's.
    `attempt` and `plan` are as for a pod; from `phase` to `current_owners`, fields repeat the object's status.
    `pre_allocation`: it may take over pods that run; `pre_allocation_mode` says which (`Default`, `Cluster`, or
    nothing, which is `Default`), `pre_allocation_multiple` that it may be more than one.
    `is_priority_set`: its author has said which priority it has; without a word it is the highest.
    """

    name: str
    uid: str
    version: Integer
    template: PodTemplate = PodTemplate()
    namespace: str = "default"
    required_node: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: list[ReservationOwner] = []
    ttl_s: float | None = None
    expires: str = ""
    allocate_once: bool = True
    allocate_policy: str = ""
    unschedulable: bool = False
    taints: list[Taint] = []
    pre_allocation: bool = False
    created: str = ""
    deleting: bool = False
    attempt: Integer = 0
    plan: str = ""
    phase: str = ""
    node: str = ""
    allocatable: Amounts = {}
    allocated: Amounts = {}
    conditions: list[ReservationCondition] = []
    current_owners: list[ObjectReference] = []
    problems: list[Problem] = []
    pre_allocation_mode: str = ""
    pre_allocation_multiple: bool = False
    is_priority_set: bool = False


class ReservationSchedule(Message, frozen=True, kw_only=True, tag="reservationschedule.seen.v1"):
    """A ReservationSchedule: by which calendar Reservations are made, and what of.

    `duration_s` and `lead_s` are 0 where they could not be read (a problem then). `labels`, `annotations` and `spec`
    are those of the Reservations; `spec` is empty where they are larger than 32 KiB. `status` repeats the object's.
    """

    name: str
    uid: str
    version: Integer
    cron: str = ""
    time_zone: str = ""
    duration_s: float = 0.0
    lead_s: float = 0.0
    displaces: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: dict[str, Any] = {}
    deleting: bool = False
    status: ReservationScheduleStatus = ReservationScheduleStatus()
    problems: list[Problem] = []
