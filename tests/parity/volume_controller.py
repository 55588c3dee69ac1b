"""The part of Kubernetes' volume controller that kube-scheduler waits for before it binds a pod.

A volume that kube-scheduler has kept for a claim is bound to it; a claim for which it has selected a node gets a new
volume that every node reaches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.parity.volumes import DRIVER
from tests.parity.world import RESOURCES, Manifest

Call = Callable[..., Awaitable[Any]]
SELECTED: Final = "volume.kubernetes.io/selected-node"
BOUND: Final = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


class VolumeController:
    """Reacts to what a watch shows. `call` asks the API server: method, path, body."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._done: set[str] = set()

    async def see(self, kind: str, event: str, item: Manifest) -> None:
        """A claim or a volume is there, has changed, or is deleted."""
        uid = item["metadata"]["uid"]
        if event == "DELETED":
            self._done.discard(uid)
        elif kind == "PersistentVolume":
            await self._see_volume(item)
        elif _waits(item) and uid not in self._done:
            self._done.add(uid)
            await self._provision(item)

    async def _see_volume(self, volume: Manifest) -> None:
        reference, phase = volume["spec"].get("claimRef"), volume.get("status", {}).get("phase")
        if reference is None or phase != "Available" or volume["metadata"]["uid"] in self._done:
            return
        self._done.add(volume["metadata"]["uid"])
        await self._bind(volume["metadata"]["name"], reference["namespace"], reference["name"])

    async def _provision(self, claim: Manifest) -> None:
        meta = claim["metadata"]
        name = f"pvc-{meta['uid']}"
        reference = {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"]}
        spec = {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"].get("storageClassName", ""),
            "csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"},
            "claimRef": {**reference, "uid": meta["uid"]},
        }
        body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
        self._done.add((await self._call("POST", RESOURCES["PersistentVolume"].path(), body))["metadata"]["uid"])
        await self._bind(name, meta["namespace"], meta["name"])

    async def _bind(self, volume: str, namespace: str, claim: str) -> None:
        volumes, claims = RESOURCES["PersistentVolume"], RESOURCES["PersistentVolumeClaim"]
        await self._call("PATCH", volumes.path("", volume, "status"), {"status": {"phase": "Bound"}})
        patch = {"metadata": {"annotations": BOUND}, "spec": {"volumeName": volume}}
        await self._call("PATCH", claims.path(namespace, claim), patch)
        await self._call("PATCH", claims.path(namespace, claim, "status"), {"status": {"phase": "Bound"}})


def _waits(claim: Manifest) -> bool:
    """A node is selected for the claim, and it has no volume."""
    return SELECTED in claim["metadata"].get("annotations", {}) and not claim["spec"].get("volumeName")
