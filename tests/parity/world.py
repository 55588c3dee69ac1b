"""A world: the objects of a small cluster and the pods that wait, as manifests, in the order in which they are made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

Manifest = dict[str, Any]
NAMESPACES: Final = ("alpha", "beta", "gamma")
"""The namespaces of every world; only their labels differ."""


class Resource(NamedTuple):
    """How the API server's paths name a kind."""

    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "", sub: str = "") -> str:
        """The path of a collection, an object, or its subresource."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        parts = [root, *(["namespaces", namespace] if self.namespaced and namespace else []), self.plural]
        return "/".join([*parts, *filter(None, (name, sub))])


RESOURCES: Final = {
    "Namespace": Resource("v1", "namespaces", False),
    "PriorityClass": Resource("scheduling.k8s.io/v1", "priorityclasses", False),
    "RuntimeClass": Resource("node.k8s.io/v1", "runtimeclasses", False),
    "StorageClass": Resource("storage.k8s.io/v1", "storageclasses", False),
    "CSIDriver": Resource("storage.k8s.io/v1", "csidrivers", False),
    "Node": Resource("v1", "nodes", False),
    "CSINode": Resource("storage.k8s.io/v1", "csinodes", False),
    "PersistentVolume": Resource("v1", "persistentvolumes", False),
    "PersistentVolumeClaim": Resource("v1", "persistentvolumeclaims", True),
    "CSIStorageCapacity": Resource("storage.k8s.io/v1", "csistoragecapacities", True),
    "VolumeAttachment": Resource("storage.k8s.io/v1", "volumeattachments", False),
    "PodDisruptionBudget": Resource("policy/v1", "poddisruptionbudgets", True),
    "Service": Resource("v1", "services", True),
    "ReplicationController": Resource("v1", "replicationcontrollers", True),
    "ReplicaSet": Resource("apps/v1", "replicasets", True),
    "StatefulSet": Resource("apps/v1", "statefulsets", True),
    "Pod": Resource("v1", "pods", True),
}
"""The kinds of a world, in the order in which they are made."""


@dataclass(frozen=True)
class World:
    """`objects` are there first (pods among them are bound), then each of `pending` is decided, one after the other.

    `name` says how to make it again.
    """

    name: str
    features: tuple[str, ...] = ()
    objects: tuple[Manifest, ...] = ()
    pending: tuple[Manifest, ...] = ()

    def with_objects(self, objects: tuple[Manifest, ...]) -> World:
        """The same world with other objects."""
        return replace(self, objects=objects)

    def with_pending(self, pending: tuple[Manifest, ...]) -> World:
        """The same world with other pods to decide."""
        return replace(self, pending=pending)


class Identity(NamedTuple):
    """Which object."""

    kind: str
    namespace: str
    name: str


def identity(item: Manifest) -> Identity:
    """Which object a manifest is."""
    meta = item["metadata"]
    return Identity(item["kind"], meta.get("namespace", ""), meta["name"])


@dataclass(frozen=True)
class Outcome:
    """What became of a pod.

    `verdict`: bound, unschedulable, gated or none (no answer in time). `feasible`: the nodes that passed the filters,
    where that is known; `scores`: what each plugin gave each of them, weighted, empty when there was nothing to choose.
    `victims` are namespace/name, those that were leaving already among them.
    """

    verdict: str
    node: str = ""
    message: str = ""
    feasible: tuple[str, ...] = ()
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    nominated: str = ""
    victims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """A pod as the API server has it, what became of it, and the objects as they are afterwards (None: deleted)."""

    pod: Manifest
    outcome: Outcome
    after: tuple[tuple[Identity, Manifest | None], ...]


@dataclass(frozen=True)
class Trace:
    """How a world went: the objects as the API server has them, then the steps. `refused`: what it did not accept."""

    world: World
    objects: tuple[Manifest, ...]
    steps: tuple[Step, ...]
    refused: tuple[str, ...] = ()
