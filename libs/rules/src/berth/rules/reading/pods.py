"""v1 Pod: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

from berth.contracts import state
from berth.contracts.kube import PodStatus
from berth.contracts.names import ANNOTATION_BLKIO_QOS, ANNOTATION_MIRROR
from berth.rules.pod_reading import PodItem, parts_of
from berth.rules.reading.findings import Found, bounded_name, problems_of, shortened
from berth.rules.reading.metadata import attempt_of, carried, identity_of, plan_of, time_of
from berth.rules.reading.template import template_of
from berth.rules.reading.volumes import limited_volumes
from berth.rules.reservation_operating import is_placeholder, owner_problems

UNSCHEDULABLE_LENGTH_MAX: Final = 1024
REASON_LENGTH_MAX: Final = 256


def pod_of(item: PodItem, version: int) -> state.Pod:
    """The pod, with everything that could not be read left out and named."""
    found: Found = []
    meta = item.metadata
    namespace, name = identity_of(meta, found)
    spec, status = parts_of(item, found)
    annotations = carried(meta.annotations)
    template = template_of(
        spec,
        meta.labels,
        annotations,
        found,
        status=status if spec.node_name else None,
        kube_qos=status.qos_class,
    )
    attempt = attempt_of(annotations, found)
    if spec.node_name and is_placeholder(meta.labels or {}):  # before that it is a pod like any other
        found += ((problem.field, problem.message) for problem in owner_problems(annotations))
    return state.Pod(
        namespace=namespace,
        name=name,
        uid=meta.uid,
        version=version,
        template=template,
        node=spec.node_name,
        phase=status.phase,
        created=meta.creation_timestamp or "",
        deleting=meta.deletion_timestamp is not None,
        attempt=attempt,
        plan=plan_of(annotations),
        owners=meta.owner_references or [],
        unschedulable=_unschedulable(status),
        scheduled=_true_since(status, "PodScheduled", found),
        started=time_of(status.start_time, "status.startTime", found),
        initialized=_true_since(status, "Initialized", found),
        deletes_at=time_of(meta.deletion_timestamp, "metadata.deletionTimestamp", found),
        disruption=_disruption(status),
        nominated=bounded_name(status.nominated_node_name, "status.nominatedNodeName", found),
        mirror=ANNOTATION_MIRROR in (meta.annotations or ()),
        problems=problems_of(found) if found else [],
        ready=is_placeholder(meta.labels or {}) and _is_true(status, "Ready"),
        limited_volumes=limited_volumes(spec.volumes or (), name) if ANNOTATION_BLKIO_QOS in annotations else {},
    )


def _unschedulable(status: PodStatus) -> str:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled":
            if condition.status == "False" and condition.reason == "Unschedulable":
                return shortened(condition.message, UNSCHEDULABLE_LENGTH_MAX)
            return ""
    return ""


def _is_true(status: PodStatus, kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in status.conditions or ())


def _true_since(status: PodStatus, kind: str, found: Found) -> str:
    for position, condition in enumerate(status.conditions or ()):
        if condition.type == kind and condition.status == "True":
            field = f"status.conditions[{position}].lastTransitionTime"
            return time_of(condition.last_transition_time, field, found)
    return ""


def _disruption(status: PodStatus) -> str:
    for condition in status.conditions or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return shortened(condition.reason, REASON_LENGTH_MAX)
    return ""
