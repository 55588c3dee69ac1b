"""Gangs that may be half there: they lost a member after they had begun, or were so when we began to look.

Why a member was withdrawn cannot be told from looks that are seconds apart: its node may have come back, an epoch may
have been raised between them. So each withdrawal excuses its gang, but only the one that was seen to happen, and until
the gang is whole, or not there at all, again.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.contracts import kube, names
from berth.rules.gang_config import gang_name_of_pod, gang_of_pod


class GangMemory:
    """Bound members of each gang, and how often each that waits was withdrawn, from look to look."""

    def __init__(self) -> None:
        self.excused: set[str] = set()
        self._bound: dict[str, set[str]] | None = None
        self._attempts: dict[str, str] = {}

    def look(self, pods: Iterable[kube.Pod], pod_groups: Iterable[kube.PodGroup], schedulers: frozenset[str]) -> None:
        """The next complete look; sets `excused`."""
        bound: dict[str, set[str]] = {}
        attempts: dict[str, str] = {}
        withdrawn: set[str] = set()
        minima: dict[str, int] = {}
        for pod in pods:
            labels, notes = pod.metadata.labels or {}, pod.metadata.annotations or {}
            name = gang_name_of_pod(labels, notes)
            if not name or pod.spec.scheduler_name not in schedulers:
                continue
            gang = f"{pod.metadata.namespace}/{name}"
            uids = bound.setdefault(gang, set())
            config = gang_of_pod(pod.metadata.namespace, labels, notes)
            minima[gang] = max(minima.get(gang, 0), (config.min_member if config else 0) or 0)
            if pod.spec.node_name:
                uids.add(pod.metadata.uid)
                continue
            attempt = attempts[pod.metadata.uid] = notes.get(names.ANNOTATION_ATTEMPT, "0")
            if self._bound is not None and attempt != self._attempts.get(pod.metadata.uid, "0"):
                withdrawn.add(gang)
        for group in pod_groups:
            minima[f"{group.metadata.namespace}/{group.metadata.name}"] = group.spec.min_member
        self.excused = (self.excused & bound.keys()) | withdrawn | self._short_of_members(bound)
        self.excused -= {gang for gang, uids in bound.items() if not uids or len(uids) >= minima[gang] > 0}
        self._bound, self._attempts = bound, attempts

    def _short_of_members(self, bound: dict[str, set[str]]) -> set[str]:
        """Gangs of which a bound member is there no more, or which we have only just met half there."""
        if self._bound is None:
            return {gang for gang, uids in bound.items() if uids}
        return {gang for gang, uids in bound.items() if self._bound.get(gang, set()) - uids}
