"""Pods with claims: kept volumes, provisioned ones, and claims that cannot be served.

The real API server has no controllers: there the test plays the one that binds claims, and the provisioner.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.clusters import REAL
from tests.e2e.corner import Corner
from tests.e2e.objects import NODES, Json
from tests.e2e.waiting import until

from berth.contracts.names import ANNOTATION_BIND_COMPLETED, ANNOTATION_SELECTED_NODE

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
HOST = "test.berth.sh/host"
ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.test.berth.sh"


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

    async def node(self, name: str, zone: str = "") -> str:
        """With a zone also what the driver says of the node: volumes of a zone are reached in all of it."""
        full = await self.corner.node(name, labels={HOST: self.full(name), **({ZONE: zone} if zone else {})})
        if zone:
            driver = {"name": DRIVER, "nodeID": full, "topologyKeys": [ZONE]}
            manifest = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": full}}
            await self.corner.create(CSI_NODES, {**manifest, "spec": {"drivers": [driver]}})
        return full

    async def volume(self, name: str, storage_class: str, at: str, key: str = HOST, **spec: Any) -> None:
        """A volume at this host, or in this zone."""
        values = [self.full(at) if key == HOST else at]
        expressions = [{"key": key, "operator": "In", "values": values}]
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

    async def pod(self, name: str, claim: str, **more: Any) -> None:
        await self.corner.pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}], **more)

    async def see(self, claim: str) -> Json:
        return await self.corner.whole.call("GET", f"{self.claims}/{claim}")

    async def bind(self, claim: str, volume: str) -> None:
        """What the PersistentVolume controller does when a volume is kept for the claim."""
        note = {"metadata": {"annotations": {ANNOTATION_BIND_COMPLETED: "yes"}}}
        await self.corner.whole.patch(f"{self.claims}/{claim}", note | {"spec": {"volumeName": volume}})

    async def made(self, claim: str, storage_class: str) -> None:
        """Return once a volume was made in the zone of the node that the claim names, and bound: by controllers, or as
        a provisioner does it."""
        node = await self.corner.whole.call("GET", f"{NODES}/{await self.selected(claim)}")
        if not self.has_controllers:
            found = await self.see(claim)
            reference = {"namespace": self.corner.namespace, "name": claim, "uid": found["metadata"]["uid"]}
            zone = node["metadata"]["labels"][ZONE]
            await self.volume(f"made-{claim}", storage_class, zone, ZONE, claimRef=reference)
            await self.bind(claim, self.full(f"made-{claim}"))

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


async def test_a_stateful_set_over_zones_comes_back_to_its_volumes(corner: Corner, storage: Storage) -> None:
    """Its pods come one after the other, as its controller makes them; then two of them are replaced."""
    await storage.storage_class("made", DRIVER)
    zones = {await storage.node(zone, zone=zone): zone for zone in "abc"}
    app = {"app": "db"}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**constraint, "labelSelector": {"matchLabels": app}}]

    async def replica(at: int) -> str:
        labels = {**app, "statefulset.kubernetes.io/pod-name": f"db-{at}"}
        await storage.pod(f"db-{at}", f"data-db-{at}", labels=labels, topologySpreadConstraints=spread)
        if not (await storage.see(f"data-db-{at}"))["spec"].get("volumeName"):
            await storage.made(f"data-db-{at}", "made")
        (pod,) = await corner.bound(f"db-{at}")
        return zones[pod["spec"]["nodeName"]]

    for at in range(3):
        await storage.claim(f"data-db-{at}", "made")
    first = [await replica(at) for at in range(3)]
    assert sorted(first) == ["a", "b", "c"]
    for at in (0, 1):
        await corner.delete_pod(f"db-{at}")
    # The spread alone would let either go to both zones.
    assert {at: await replica(at) for at in (1, 0)} == {1: first[1], 0: first[0]}


async def test_a_volume_is_made_where_its_pod_goes(corner: Corner, storage: Storage) -> None:
    await storage.storage_class("made", DRIVER)
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
