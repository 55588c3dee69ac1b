"""Pods with claims: kept volumes, provisioned ones, and claims that cannot be served.

The real API server has no controllers: there the test plays the one that binds claims, and the provisioner.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.clusters import REAL
from tests.e2e.corner import Corner
from tests.e2e.objects import Json
from tests.e2e.waiting import until

from berth.contracts.names import ANNOTATION_BIND_COMPLETED, ANNOTATION_SELECTED_NODE

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims"
HOST = "test.berth.sh/host"


class Storage:
    """The storage of a corner; names of what lies in no namespace carry the corner's."""

    def __init__(self, corner: Corner, kind: str) -> None:
        self.corner = corner
        self.has_controllers = kind != REAL
        self.claims = CLAIMS.format(corner.namespace)

    def full(self, name: str) -> str:
        return f"{self.corner.namespace}-{name}"

    async def storage_class(self, name: str, provisioner: str) -> None:
        manifest = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": self.full(name)},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await self.corner.create(CLASSES, manifest)

    async def node(self, name: str) -> str:
        return await self.corner.node(name, labels={HOST: self.full(name)})

    async def volume(self, name: str, storage_class: str, host: str, **spec: Any) -> None:
        expressions = [{"key": HOST, "operator": "In", "values": [self.full(host)]}]
        manifest = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": self.full(name)},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.full(storage_class),
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": "/disk"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
                **spec,
            },
        }
        await self.corner.create(VOLUMES, manifest)
        if not self.has_controllers:
            status = {"status": {"phase": "Available"}}
            await self.corner.whole.patch(f"{VOLUMES}/{self.full(name)}/status", status)

    async def claim(self, name: str, storage_class: str) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.corner.namespace},
            "spec": {
                "storageClassName": self.full(storage_class),
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        await self.corner.whole.call("POST", self.claims, manifest)

    async def pod(self, name: str, claim: str) -> None:
        await self.corner.pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])

    async def see(self, claim: str) -> Json:
        return await self.corner.whole.call("GET", f"{self.claims}/{claim}")

    async def bind(self, claim: str, volume: str) -> None:
        """What the PersistentVolume controller does when a volume is kept for the claim."""
        note = {"metadata": {"annotations": {ANNOTATION_BIND_COMPLETED: "yes"}}}
        await self.corner.whole.patch(f"{self.claims}/{claim}", note | {"spec": {"volumeName": volume}})

    async def kept(self, claim: str) -> str:
        """The volume that is kept for the claim, once one is."""

        async def look() -> str:
            for volume in await self.corner.whole.items(VOLUMES):
                reference = volume["spec"].get("claimRef") or {}
                if (reference.get("namespace"), reference.get("name")) == (self.corner.namespace, claim):
                    return str(volume["metadata"]["name"])
            return ""

        return await until(look, f"a volume for {claim}")

    async def selected(self, claim: str) -> str:
        """The node that the claim names, once it does."""

        async def look() -> str:
            return str((await self.see(claim))["metadata"].get("annotations", {}).get(ANNOTATION_SELECTED_NODE, ""))

        return await until(look, f"the node of {claim}")


@pytest.fixture
def storage(corner: Corner, kind: str) -> Storage:
    return Storage(corner, kind)


async def test_replicas_of_a_stateful_set_get_the_volumes_of_their_nodes(corner: Corner, storage: Storage) -> None:
    await storage.storage_class("local", "kubernetes.io/no-provisioner")
    for at in range(2):
        await storage.node(f"n{at}")
        await storage.volume(f"disk-{at}", "local", f"n{at}")
        await storage.claim(f"data-{at}", "local")
        await storage.pod(f"web-{at}", f"data-{at}")
    if not storage.has_controllers:
        for at in range(2):
            await storage.bind(f"data-{at}", await storage.kept(f"data-{at}"))
    pods = await corner.bound("web-0", "web-1")
    for at, pod in enumerate(pods):
        claim = await storage.see(f"data-{at}")
        host = pod["spec"]["nodeName"].removeprefix(f"{corner.namespace}-n")
        assert claim["spec"]["volumeName"] == storage.full(f"disk-{host}")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2


async def test_a_volume_is_made_where_its_pod_goes(corner: Corner, storage: Storage) -> None:
    await storage.storage_class("made", "csi.test.berth.sh")
    node = await storage.node("n0")
    await storage.claim("data", "made")
    await storage.pod("web", "data")
    assert await storage.selected("data") == node
    if not storage.has_controllers:
        claim = await storage.see("data")
        reference = {"namespace": corner.namespace, "name": "data", "uid": claim["metadata"]["uid"]}
        await storage.volume("fresh", "made", "n0", claimRef=reference)
        await storage.bind("data", storage.full("fresh"))
    (pod,) = await corner.bound("web")
    assert pod["spec"]["nodeName"] == node


async def test_claims_that_cannot_be_served_are_named_and_hold_nobody_up(corner: Corner, storage: Storage) -> None:
    await storage.storage_class("local", "kubernetes.io/no-provisioner")
    await storage.node("n0")
    await storage.claim("data", "local")
    await storage.claim("odd", "nowhere")
    await storage.pod("no-volume", "data")
    await storage.pod("no-class", "odd")
    await storage.pod("no-claim", "missing")
    await corner.refused("no-volume", "node(s) didn't find available persistent volumes to bind")
    await corner.refused("no-class", "pod has unbound immediate PersistentVolumeClaims")
    await corner.refused("no-claim", 'persistentvolumeclaim "missing" not found')
    await corner.placed_now()
    await storage.volume("disk", "local", "n0")
    if not storage.has_controllers:
        await storage.bind("data", await storage.kept("data"))
    await corner.bound("no-volume")
