"""A node that a schedule keeps for one team in the evening, and who comes for it before."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.simcluster.generate import PodRequest, pod_manifest
from berth.simcluster.store.objects import Json

NAME: Final = "studio"
"""The node, its label and its taint, so that nobody else goes there."""
LABEL: Final = "demo.berth.sh/studio"
SCHEDULE: Final = "evenings"
HOUR_UTC: Final = 22
LEAD_H: Final = 23
"""With a window of an hour a day: at any time of the day one is open, or held in advance."""
REQUEST: Final = PodRequest(3_000, 4_096)
"""More than half of the node."""


class Studio(NamedTuple):
    """The node, the schedule, a pod that has no part in it, and one that it was made for."""

    node: Json
    schedule: Json
    stranger: Json
    player: Json

    @property
    def pods(self) -> list[Json]:
        """All pods of the act."""
        return [self.stranger, self.player]


def studio(namespace: str) -> Studio:
    """What the act creates."""
    return Studio(
        _node(), _schedule(namespace), _pod("walk-in", namespace), _pod("concert", namespace, {LABEL: "band"})
    )


def _node() -> Json:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NAME, "labels": {"kubernetes.io/hostname": NAME, LABEL: "true"}},
        "spec": {"taints": [{"key": LABEL, "value": "true", "effect": "NoSchedule"}]},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _schedule(namespace: str) -> Json:
    return {
        "apiVersion": "scheduling.berth.sh/v1alpha1",
        "kind": "ReservationSchedule",
        "metadata": {"name": SCHEDULE},
        "spec": {
            "cron": f"0 {HOUR_UTC} * * *",
            "duration": "1h",
            "lead": f"{LEAD_H}h",
            "template": {
                "spec": {
                    "allocateOnce": False,
                    "owners": [{"labelSelector": {"matchLabels": {LABEL: "band"}}}],
                    "template": {"metadata": {"namespace": namespace}, "spec": _there(REQUEST.spec())},
                }
            },
        },
    }


def _pod(name: str, namespace: str, labels: dict[str, str] | None = None) -> Json:
    manifest = pod_manifest(
        name, REQUEST, namespace=namespace, qos="LS", priority_class="koord-prod", labels=labels or {}
    )
    _there(manifest["spec"])
    return manifest


def _there(spec: Json) -> Json:
    """To the studio and nowhere else."""
    spec["nodeSelector"] = {LABEL: "true"}
    spec["tolerations"] = [{"key": LABEL, "operator": "Exists"}]
    return spec
