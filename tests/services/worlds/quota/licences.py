"""A hook as a plug-in has it (docs/quota-hooks.md): seats of a licence, of which a team has only so many."""

from __future__ import annotations

from berth.rules.quota_hooks.seen import HookedGroup, HookedPod

SEAT = "licences.example.com/seat"


class Licences:
    """Each pod of the solver takes a seat; teams that are not licensed run none."""

    resources = (SEAT,)

    def charges(self, pod: HookedPod) -> dict[str, int]:
        """One seat, or as many as the pod says."""
        return {SEAT: int(pod.labels.get("seats", "1"))} if pod.labels.get("app") == "solver" else {}

    def refuses(self, pod: HookedPod, group: HookedGroup) -> str:
        """Only groups with a licence number run the solver."""
        is_licensed = pod.labels.get("app") != "solver" or "licence" in group.labels
        return "" if is_licensed else f"group {group.name} has no licence"

    def shows(self, group: HookedGroup) -> dict[str, int]:
        """How many seats are left."""
        return {"seatsLeft": group.max.get(SEAT, 0) - group.used.get(SEAT, 0)} if SEAT in group.max else {}
