"""Who may not be evicted, whatever the plan says: protected pods, and members of strict gangs (E9, E10)."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts.state import Pod, PodGroup
from berth.rules.gang_config import gang_of_pod, gang_of_pod_group
from berth.rules.preemption import why_protected


def why_stays(victim: Pod, groups: Mapping[tuple[str, str], PodGroup]) -> str:
    """Why a pod is nobody's victim by now; empty: it may leave.

    A PodGroup speaks for its members, without one they speak for themselves.
    """
    protected = why_protected(victim)
    if protected:
        return f"{victim.namespace}/{victim.name} is protected: {protected}"
    config = gang_of_pod(victim.namespace, victim.template.labels, victim.template.annotations)
    if config is None:
        return ""
    group = groups.get((victim.namespace, config.name))
    if group is not None:
        config = gang_of_pod_group(
            group.namespace,
            group.name,
            min_member=group.min_member,
            schedule_timeout_s=group.schedule_timeout_s,
            annotations=group.annotations,
        )
    is_held = config.mode == "Strict"
    return f"{victim.namespace}/{victim.name} belongs to the strict gang {config.id}" if is_held else ""
