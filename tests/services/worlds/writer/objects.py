"""Pods, nodes and Reservations of the cluster-writer's tests, and where the simulated API keeps them."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.contracts import names, state
from berth.simcluster import Store
from berth.simcluster.store import Path

GPU_NAMES = (names.GPU_CORE, names.GPU_MEMORY_RATIO)


def new_pod(
    name: str, *, cpu: str = "1", gpus: int = 0, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    devices = {each: str(gpus * 100) for each in GPU_NAMES} if gpus else {}
    resources = {"requests": {"cpu": cpu} | devices, "limits": devices}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            "schedulerName": names.SCHEDULER_NAME,
            **spec,
        },
    }


def device_of(node: str, cards: int) -> state.Device:
    """A node's Device with so many healthy cards."""
    listed = [state.DeviceInfo(kind="gpu", minor=minor, healthy=True) for minor in range(cards)]
    return state.Device(name=node, uid=f"device of {node}", version=1, devices=listed)


def new_node(name: str, *, cpu: str = "16", pods: str = "110") -> dict[str, Any]:
    amounts = {"cpu": cpu, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def new_reservation(name: str, *, cpu: str = "2") -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {"template": new_pod("x", cpu=cpu), "owners": [{"labelSelector": {}}], "ttl": "1h"},
    }


def pod_path(name: str, namespace: str = "default") -> Path:
    return Path("", "v1", "pods", namespace, name)


def read(store: Store, path: Path) -> dict[str, Any] | None:
    reply = store.get(path)
    return msgspec.json.decode(reply.body) if reply.status == 200 else None
