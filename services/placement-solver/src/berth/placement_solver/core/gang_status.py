"""The status of a PodGroup: its next phase and counters, from its members as they are now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from berth.contracts.state import Pod, PodGroup
from berth.rules.gang_member import Member
from berth.rules.podgroup_phase import SCHEDULING, is_final, is_stale, next_phase


def next_status(group: PodGroup, members: Iterable[Member], now_text: str) -> dict[str, Any]:
    """What has to be merged into the status; empty when it says all that already. `now_text` is now as RFC 3339.

    A Reservation that is on its node is scheduled, and runs as little as a pod that has not started.
    """
    seen = sorted(members, key=lambda each: each.name)
    bound = sum(1 for each in seen if each.node)
    if is_final(group.phase) or _is_stale(group):
        return {}
    step = next_phase(
        group.phase, min_member=group.min_member, member_phases=[_phase_of(each) for each in seen], bound=bound
    )
    status: dict[str, Any] = {}
    if step.phase != group.phase:
        status["phase"] = step.phase
    if step.counts is not None:
        known = (group.scheduled, group.running, group.succeeded, group.failed)
        if tuple(step.counts) != known:
            status.update(step.counts._asdict())
    if step.fill_occupied_by and not group.occupied_by:
        owners = _owners(each for each in seen if isinstance(each, Pod))
        if owners:
            status["occupiedBy"] = owners
    if step.phase == SCHEDULING and not group.schedule_start_time:
        status["scheduleStartTime"] = now_text
    return status


def _phase_of(member: Member) -> str:
    """As a pod's: what Kubernetes says of a Reservation are other words, until it ends."""
    return member.phase if isinstance(member, Pod) else ""


def _owners(pods: Iterable[Pod]) -> str:
    for pod in pods:
        if pod.owners:
            return ",".join(sorted(f"{pod.namespace}/{owner.name}" for owner in pod.owners))
    return ""


def _is_stale(group: PodGroup) -> bool:
    started = _unix(group.schedule_start_time)
    return started > 0 and is_stale(
        scheduled=group.scheduled,
        running=group.running,
        min_member=group.min_member,
        created_s=_unix(group.created),
        schedule_started_s=started,
    )


def _unix(text: str) -> float:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else 0.0
    except ValueError:
        return 0.0
