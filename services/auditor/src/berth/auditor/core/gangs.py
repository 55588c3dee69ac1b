"""Gangs that may be half there: they lost a member after they had begun, or were so when we began to look."""

from __future__ import annotations

from berth.contracts import kube, names
from berth.rules.gang_config import gang_name_of_pod


class GangMemory:
    """Bound members of each gang, from look to look."""

    def __init__(self) -> None:
        self.excused: set[str] = set()
        self._bound: dict[str, set[str]] | None = None

    def look(self, pods: list[kube.Pod], schedulers: frozenset[str]) -> None:
        """The next complete look; sets `excused`."""
        bound: dict[str, set[str]] = {}
        waiting: dict[str, bool] = {}
        for pod in pods:
            notes = pod.metadata.annotations or {}
            name = gang_name_of_pod(pod.metadata.labels or {}, notes)
            if not name or pod.spec.scheduler_name not in schedulers:
                continue
            gang = f"{pod.metadata.namespace}/{name}"
            uids = bound.setdefault(gang, set())
            if pod.spec.node_name:
                uids.add(pod.metadata.uid)
            else:
                was_withdrawn = notes.get(names.ANNOTATION_ATTEMPT, "0") != "0"
                waiting[gang] = waiting.get(gang, False) or was_withdrawn
        self.excused &= bound.keys()
        for gang, uids in bound.items():
            if waiting.get(gang):
                self.excused.add(gang)
            elif self._bound is None:
                if uids:
                    self.excused.add(gang)
            elif self._bound.get(gang, set()) - uids:
                self.excused.add(gang)
        self._bound = bound
