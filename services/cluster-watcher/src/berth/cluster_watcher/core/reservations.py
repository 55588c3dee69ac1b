"""scheduling.koordinator.sh Reservation: from the API server's object to what STATE says of it."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from berth.contracts import state
from berth.contracts.kube import Meta, PodTemplate, PreAllocationPolicy, ReservationSpec, ReservationStatus, View
from berth.contracts.names import LABEL_PRIORITY
from berth.resources.amounts import parse_amounts
from berth.rules.durations import parse_duration_s
from berth.rules.reading.findings import Found, problems_of, shortened
from berth.rules.reading.metadata import attempt_of, carried, identity_of, plan_of, time_of
from berth.rules.reading.template import template_of
from berth.rules.reservation_resize import resized_amounts
from berth.rules.reservation_stand_in import stand_in
from berth.rules.reservation_take_over import misused
from berth.rules.salvage import read_part

TTL_DEFAULT_S: Final = 86_400.0
"""What the CRD fills in when neither `ttl` nor `expires` is given."""
PRIORITY_DEFAULT: Final = 2**31 - 1
"""Reserved capacity that says nothing about its priority goes before everything (Koordinator's reserve pod)."""
NAMESPACE_DEFAULT: Final = "default"

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


class ReservationItem(View, frozen=True, kw_only=True):
    """A Reservation whose parts are read later: its template may hold anything."""

    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


def reservation_of(item: ReservationItem, version: int) -> state.Reservation:
    """The Reservation, with everything that could not be read left out and named."""
    found: Found = []
    meta = item.metadata
    spec = read_part(item.spec, ReservationSpec, "spec", found)
    status = read_part(item.status, ReservationStatus, "status", found)
    if spec.template is None:
        found.append(("spec.template", "is missing"))
    pod = spec.template or PodTemplate()
    annotations = carried(meta.annotations)
    placed_as = stand_in(meta, pod)
    template = template_of(
        pod.spec,
        placed_as.labels,
        carried(placed_as.annotations),
        found,
        path="spec.template.spec",
        default_priority=_priority(meta.labels or {}, found),
    )
    if not status.node_name:
        resized, unread_resized = resized_amounts(annotations)
        found += ((problem.field, problem.message) for problem in unread_resized)
        if resized:
            template = msgspec.structs.replace(template, requests=template.requests | resized)
    policy = spec.pre_allocation_policy or PreAllocationPolicy()
    if spec.pre_allocation:
        found += misused(policy.mode, spec.allocate_policy)
    allocatable, unread_allocatable = parse_amounts(status.allocatable, "status.allocatable")
    allocated, unread_allocated = parse_amounts(status.allocated, "status.allocated")
    found += unread_allocatable + unread_allocated
    return state.Reservation(
        name=identity_of(meta, found).name,
        uid=meta.uid,
        version=version,
        template=template,
        namespace=pod.metadata.namespace or NAMESPACE_DEFAULT,
        required_node=pod.spec.node_name,
        labels=meta.labels or {},
        annotations=annotations,
        owners=spec.owners or [],
        ttl_s=_ttl_s(spec, found),
        expires=time_of(spec.expires, "spec.expires", found),
        allocate_once=True if spec.allocate_once is None else spec.allocate_once,
        allocate_policy=spec.allocate_policy,
        unschedulable=spec.unschedulable,
        taints=spec.taints or [],
        pre_allocation=spec.pre_allocation,
        created=meta.creation_timestamp or "",
        deleting=meta.deletion_timestamp is not None,
        attempt=attempt_of(annotations, found),
        plan=plan_of(annotations),
        phase=status.phase,
        node=status.node_name,
        allocatable=allocatable,
        allocated=allocated,
        conditions=status.conditions or [],
        current_owners=status.current_owners or [],
        problems=problems_of(found),
        pre_allocation_mode=policy.mode,
        pre_allocation_multiple=policy.enable_multiple,
        is_priority_set=template.priority != PRIORITY_DEFAULT or _names_priority(meta.labels or {}, pod),
    )


def _names_priority(labels: dict[str, str], pod: PodTemplate) -> bool:
    """Whether the highest priority was asked for by name."""
    return pod.spec.priority == PRIORITY_DEFAULT or labels.get(LABEL_PRIORITY) == str(PRIORITY_DEFAULT)


def _ttl_s(spec: ReservationSpec, found: Found) -> float | None:
    if not spec.ttl:
        return None if spec.expires else TTL_DEFAULT_S
    try:
        ttl_s = parse_duration_s(spec.ttl)
    except ValueError as error:
        found.append(("spec.ttl", str(error)))
        return None
    if ttl_s < 0:
        found.append(("spec.ttl", "must not be negative"))
        return None
    return ttl_s


def _priority(labels: dict[str, str], found: Found) -> int:
    text = labels.get(LABEL_PRIORITY)
    if text is None:
        return PRIORITY_DEFAULT
    if _INTEGER.fullmatch(text) is None or abs(int(text)) > PRIORITY_DEFAULT:
        message = f"{shortened(text, 40)!r} is not a 32-bit integer"
        found.append((f"metadata.labels[{LABEL_PRIORITY}]", message))
        return PRIORITY_DEFAULT
    return int(text)
