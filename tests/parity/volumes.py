"""The volumes of random pods: claims that are bound, wait for a node, are missing or lost; disks named in the pod."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tests.parity.world import Manifest

DRIVER: Final = "csi.example.com"
MODES: Final = (["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOncePod"], ["ReadWriteMany"])
ZONE: Final = "topology.kubernetes.io/zone"
DISKS: Final[tuple[dict[str, Any], ...]] = (
    {"gcePersistentDisk": {"pdName": "one"}},
    {"gcePersistentDisk": {"pdName": "one", "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    {"awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}},
    {"iscsi": {"iqn": "iqn.2020-01.com.example:a", "lun": 0, "targetPortal": "10.0.0.9:3260"}},
    {"iscsi": {"iqn": "iqn.2020-01.com.example:a", "lun": 1, "targetPortal": "10.0.0.9:3260", "readOnly": True}},
    {"rbd": {"image": "i", "monitors": ["m1", "m2"], "pool": "rbd"}},
    {"rbd": {"image": "i", "monitors": ["m2"], "pool": "rbd", "readOnly": True}},
)


def attach(rng: Random, nodes: list[Manifest], bound: list[Manifest], pending: list[Manifest]) -> list[Manifest]:
    """Give some pods a claim; the classes, drivers, volumes and claims that there are."""
    made: list[Manifest] = _classes(rng)
    made += [_csi_node(rng, node["metadata"]["name"]) for node in nodes if rng.random() < 0.7]
    number = 0
    for pods in (bound, pending):
        for pod in pods:
            if rng.random() < (0.3 if pods is bound else 0.7):
                number += 1
                made += _claim(rng, f"v{number}", pod, nodes, is_bound=pods is bound)
    for extra in range(rng.randint(0, 3)):
        made.append(_volume(rng, f"free{extra}", nodes, storage_class="local"))
    claims = [each for each in made if each["kind"] == "PersistentVolumeClaim"]
    for pod in pending:  # one claim for two pods
        same = [each for each in claims if each["metadata"]["namespace"] == pod["metadata"]["namespace"]]
        if same and not pod["spec"].get("volumes") and rng.random() < 0.5:
            _mount(pod, rng.choice(same)["metadata"]["name"])
    order = ("StorageClass", "CSIDriver", "CSINode", "PersistentVolume", "PersistentVolumeClaim", "CSIStorageCapacity")
    return sorted(made, key=lambda each: order.index(each["kind"]))


def attach_disks(rng: Random, pods: list[Manifest]) -> None:
    """Name disks in some pods."""
    for pod in pods:
        if rng.random() < 0.4:
            volumes = pod["spec"].setdefault("volumes", [])
            volumes.append({"name": f"disk{len(volumes)}", **rng.choice(DISKS)})


def _classes(rng: Random) -> list[Manifest]:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["za", "zb"]}]}]
    capacity = rng.random() < 0.4
    found = [
        _storage_class("wait", DRIVER, "WaitForFirstConsumer", allowed if rng.random() < 0.5 else None),
        _storage_class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", None),
        _storage_class("now", DRIVER, "Immediate", None),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"storageCapacity": capacity, "attachRequired": True},
        },
    ]
    if capacity:
        found += [_storage_capacity(rng, zone) for zone in ("za", "zb")]
    return found


def _storage_capacity(rng: Random, zone: str) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": f"capacity-{zone}", "namespace": "alpha"},
        "storageClassName": "wait",
        "capacity": rng.choice(("500Mi", "5Gi")),
        "nodeTopology": {"matchLabels": {ZONE: zone}},
    }


def _storage_class(name: str, provisioner: str, mode: str, allowed: Any) -> Manifest:
    made = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
    return {**made, "allowedTopologies": allowed} if allowed else made


def _csi_node(rng: Random, name: str) -> Manifest:
    driver: dict[str, Any] = {"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE]}
    if rng.random() < 0.7:
        driver["allocatable"] = {"count": rng.randint(0, 2)}
    spec = {"drivers": [driver]}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": spec}


def _claim(rng: Random, name: str, pod: Manifest, nodes: list[Manifest], *, is_bound: bool) -> list[Manifest]:
    """The claim of a pod, and the volume that it is bound to; a claim of a bound pod is bound."""
    way = "bound" if is_bound else rng.choice(("bound", "bound", "wait", "wait", "local", "missing", "now", "lost"))
    _mount(pod, f"claim-{name}")
    if way == "missing":
        return []
    namespace = pod["metadata"]["namespace"]
    claim: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"claim-{name}", "namespace": namespace},
        "spec": {
            "accessModes": rng.choice(MODES),
            "resources": {"requests": {"storage": rng.choice(("1Gi", "2Gi"))}},
            "storageClassName": "wait" if way in ("bound", "lost") else way,
        },
    }
    if way in ("wait", "local", "now"):
        return [claim]
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claim["spec"]["volumeName"] = f"volume-{name}"
    claim["status"] = {"phase": "Lost" if way == "lost" else "Bound"}
    if way == "lost":
        return [claim]
    volume = _volume(rng, f"volume-{name}", nodes, storage_class="wait")
    volume["spec"]["accessModes"] = claim["spec"]["accessModes"]
    volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": f"claim-{name}"}
    volume["status"] = {"phase": "Bound"}
    return [volume, claim]


def _volume(rng: Random, name: str, nodes: list[Manifest], *, storage_class: str) -> Manifest:
    spec: dict[str, Any] = {
        "capacity": {"storage": rng.choice(("1Gi", "2Gi", "5Gi"))},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"},
    }
    meta: dict[str, Any] = {"name": name}
    drawn = rng.random()
    if drawn < 0.4:
        key, values = rng.choice(
            (
                (ZONE, [rng.choice(("za", "zb", "zc"))]),
                ("kubernetes.io/hostname", [rng.choice(nodes)["metadata"]["name"]]),
            )
        )
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    elif drawn < 0.6:
        meta["labels"] = {ZONE: rng.choice(("za", "za__zb", "zc"))}
    made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}
    return {**made, "status": {"phase": "Available"}}


def _mount(pod: Manifest, claim: str) -> None:
    volumes = pod["spec"].setdefault("volumes", [])
    volumes.append({"name": f"volume{len(volumes)}", "persistentVolumeClaim": {"claimName": claim}})
