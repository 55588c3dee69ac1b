"""The mix on a cluster with one node too few: pods that others leave for, and pods that bring claims of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.chaos.mix import NAMESPACE, Arrival, Json, Mix

from berth.simcluster.generate import PodRequest, pod_manifest
from berth.simcluster.generate.build import node_manifest

NODE = "crowded-0"
POOL = {"pool": "crowded"}
LOW, URGENT = "low", "urgent"
LATE, LOCAL = "late", "local"
FILLERS = 12
FILLER = PodRequest(2_000, 512)
HOSTNAME = "kubernetes.io/hostname"


def objects() -> list[Json]:
    """A node for eight of the pods that a ReplicaSet wants there, priorities, and classes of volumes."""
    node = node_manifest(NODE, cpu_milli=16_000, memory_mib=65_536)
    node["metadata"]["labels"] |= POOL
    pod = _there(pod_manifest("filler", FILLER, namespace=NAMESPACE, labels={"app": "filler"}, priority_class=LOW))
    fillers = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "filler", "namespace": NAMESPACE},
        "spec": {
            "replicas": FILLERS,
            "selector": {"matchLabels": {"app": "filler"}},
            "template": {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]},
        },
    }
    return [
        node,
        *(_class("scheduling.k8s.io/v1", "PriorityClass", name, value=value) for name, value in _PRIORITIES.items()),
        *(
            _class("storage.k8s.io/v1", "StorageClass", name, provisioner=by, volumeBindingMode="WaitForFirstConsumer")
            for name, by in _PROVISIONERS.items()
        ),
        fillers,
    ]


_PRIORITIES = {LOW: -10, URGENT: 1_000}
_PROVISIONERS = {LATE: "disks.csi.example.com", LOCAL: "kubernetes.io/no-provisioner"}


class CrowdedMix(Mix):
    """Beside all else, twice a second a pod that somebody has to leave for, or one with a claim."""

    def tick(self) -> Iterator[Arrival]:
        """See `Mix.tick`."""
        yield from super().tick()
        number = self._count
        if number % 3 == 0:
            pod = pod_manifest(f"urgent-{number}", FILLER, namespace=NAMESPACE, priority_class=URGENT)
            yield Arrival([_there(pod)], 4.0)
        if number % 3 == 1:
            yield self._with_a_claim(f"claim-{number}", LATE, [])
        if number % 3 == 2:
            name = f"local-{number}"
            yield self._with_a_claim(name, LOCAL, [_local_volume(name)])

    def _with_a_claim(self, name: str, storage_class: str, before: list[Json]) -> Arrival:
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "storageClassName": storage_class,
                "accessModes": ["ReadWriteOncePod"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        pod = pod_manifest(f"{name}-user", PodRequest(10, 16), namespace=NAMESPACE)
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        return Arrival([*before, claim, pod], 5.0)


def _class(api_version: str, kind: str, name: str, **fields: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def _there(pod: Json) -> Json:
    pod["spec"]["nodeSelector"] = dict(POOL)
    return pod


def _local_volume(name: str) -> Json:
    expressions = [{"key": HOSTNAME, "operator": "Exists"}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOncePod"],
            "storageClassName": LOCAL,
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
        },
    }
