"""scheduling.sigs.k8s.io PodGroup: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

from berth.contracts import state
from berth.contracts.kube import PodGroup
from berth.rules.reading.findings import Found, problems_of
from berth.rules.reading.metadata import carried, identity_of

COUNT_MAX: Final = 2**31 - 1


def pod_group_of(item: PodGroup, version: int) -> state.PodGroup:
    """The gang; a count outside 0 to 2**31 - 1 is a problem and counts as 0."""
    found: Found = []
    meta, spec, status = item.metadata, item.spec, item.status
    namespace, name = identity_of(meta, found)
    timeout_s = spec.schedule_timeout_seconds
    if timeout_s is not None and not 0 <= timeout_s <= COUNT_MAX:
        found.append(("spec.scheduleTimeoutSeconds", f"{timeout_s} is not between 0 and {COUNT_MAX}"))
        timeout_s = None
    return state.PodGroup(
        namespace=namespace,
        name=name,
        uid=meta.uid,
        version=version,
        labels=meta.labels or {},
        annotations=carried(meta.annotations),
        min_member=_count(spec.min_member, "spec.minMember", found),
        schedule_timeout_s=timeout_s,
        created=meta.creation_timestamp or "",
        phase=status.phase,
        occupied_by=status.occupied_by,
        scheduled=_count(status.scheduled, "status.scheduled", found),
        running=_count(status.running, "status.running", found),
        succeeded=_count(status.succeeded, "status.succeeded", found),
        failed=_count(status.failed, "status.failed", found),
        schedule_start_time=status.schedule_start_time or "",
        problems=problems_of(found),
    )


def _count(value: int, field: str, found: Found) -> int:
    if 0 <= value <= COUNT_MAX:
        return value
    found.append((field, f"{value} is not between 0 and {COUNT_MAX}"))
    return 0
