"""A node with seats that two teams share, and their pods: one has borrowed what the other is promised."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts import names
from berth.simcluster.generate import PodRequest, pod_manifest
from berth.simcluster.store.objects import Json

SEAT: Final = "demo.berth.sh/seat"
"""What is shared, and nothing else has."""
SEATS: Final = 2
OWNER: Final = "lab"
BORROWER: Final = "guests"
NODE: Final = "seats"


class Lending(NamedTuple):
    """A node with seats, the groups that share them one by one, the pods that borrow, and the one that is promised a
    seat."""

    node: Json
    quotas: list[Json]
    guests: list[Json]
    owner: Json

    @property
    def pods(self) -> list[Json]:
        """All pods of the act."""
        return [*self.guests, self.owner]


def lending(namespace: str) -> Lending:
    """What the act creates."""
    return Lending(
        _node(),
        [_quota(name, namespace) for name in (OWNER, BORROWER)],
        [_pod(f"guest-{number}", BORROWER, namespace) for number in range(SEATS)],
        _pod("owner", OWNER, namespace),
    )


def _node() -> Json:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", SEAT: str(SEATS)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}},
        "spec": {"taints": [{"key": SEAT, "value": "true", "effect": "NoSchedule"}]},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _quota(name: str, namespace: str) -> Json:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace, "labels": {names.LABEL_QUOTA_IS_PARENT: "false"}},
        "spec": {"min": {SEAT: "1"}, "max": {SEAT: str(SEATS)}},
    }


def _pod(name: str, group: str, namespace: str) -> Json:
    manifest = pod_manifest(name, PodRequest(100, 64), namespace=namespace, labels={names.LABEL_QUOTA_NAME: group})
    manifest["spec"]["tolerations"] = [{"key": SEAT, "operator": "Exists"}]
    resources = manifest["spec"]["containers"][0]["resources"]
    for part in ("requests", "limits"):
        resources[part] = {**resources.get(part, {}), SEAT: "1"}
    return manifest
