"""What the demonstration creates: the same objects for the same seed and size."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from berth.cli.demo.machine import Inside, inside
from berth.cli.demo.seats import Lending, lending
from berth.cli.demo.shop import Shop, shop
from berth.cli.demo.studio import Studio, studio
from berth.cli.limits import NODES_MAX, NODES_MIN
from berth.contracts import names
from berth.simcluster.generate import (
    ClusterShape,
    PodRequest,
    WorkloadShape,
    generate_cluster,
    generate_workload,
    pod_manifest,
)
from berth.simcluster.store.objects import Json

GANG_MAX: Final = 16
QUOTA: Final = "ml"
SPARE_GPUS: Final = 2
"""GPUs that the quota leaves once the gang runs."""
PODS_PER_GPU: Final = 1.35
OWNER: Final = "demo.berth.sh/job"
NAMESPACE: Final = "default"
ZONE: Final = "topology.kubernetes.io/zone"
ZONES: Final = 3
STORAGE_CLASS: Final = "disks"
SPOT: Final = "demo.berth.sh/spot"
"""Label and taint of the node on which pods make way for another."""
SPOT_PODS: Final = 2
FIELD: Final = 2
"""Nodes on which a job makes way for another one."""
PRIORITY_CLASS: Final = "koord-prod"


class Scenario(NamedTuple):
    """Manifests by act; `gpus` and `kinds` describe the cluster."""

    cluster: list[Json]
    gpus: int
    models: list[str]
    quota: Json
    batch: list[Json]
    gang: list[Json]
    shared: list[Json]
    reservation: Json
    owner: Json
    apart: list[Json]
    storage: list[Json]
    stored: Json
    spot: Json
    reports: list[Json]
    urgent: Json
    field: list[Json]
    sweep: list[Json]
    deadline: list[Json]
    over_quota: Json
    bad_input: Json
    unsupported: Json
    late: list[Json]
    inside: Inside
    lending: Lending
    studio: Studio
    shop: Shop

    @property
    def alone(self) -> list[Json]:
        """The pods that have a name of their own in the story."""
        inside = self.inside
        single = [self.owner, self.stored, self.urgent, self.over_quota, self.bad_input, self.unsupported]
        return [*single, inside.own, inside.beside, inside.rest, *self.lending.pods, *self.studio.pods, *self.shop.pods]

    @property
    def pods(self) -> int:
        """How many pods there are in all."""
        manifests = [*self.batch, *self.gang, *self.shared, *self.apart, *self.reports, *self.alone, *self.late]
        manifests += [*self.sweep, *self.deadline]
        return sum(1 for each in manifests if each["kind"] == "Pod")


def scenario(nodes: int, seed: int) -> Scenario:
    """The scenario of a size and a seed. Raises ValueError when the size is out of range."""
    if not NODES_MIN <= nodes <= NODES_MAX:
        raise ValueError(f"nodes: must be between {NODES_MIN} and {NODES_MAX}")
    cluster = generate_cluster(ClusterShape(nodes=nodes, zones=ZONES), seed=seed)
    within = inside(NAMESPACE, f"zone-{ZONES - 1}", qos="LS", priority_class=PRIORITY_CLASS)
    gpus = _gpus(cluster)
    members = max(2, min(GANG_MAX, gpus // 10))
    shape = WorkloadShape(pods=int(gpus * PODS_PER_GPU), prefix="job", priority_classes=True)
    workload = generate_workload(shape, seed=seed)
    classes = [each for each in workload if each["kind"] == "PriorityClass"]
    singles = [each for each in workload if each["kind"] == "Pod"]
    half = len(singles) // 2
    cluster = [*cluster, *within.objects, *classes]
    devices = [each for each in cluster if each["kind"] == "Device"]
    return Scenario(
        cluster=cluster,
        gpus=_gpus(cluster),
        models=sorted({each["metadata"]["labels"][names.LABEL_GPU_MODEL] for each in devices}),
        quota=_quota(members),
        batch=singles[:half],
        gang=_gang("train-a", members),
        shared=[_share("infer", "LS", "koord-prod", 60), _share("etl", "BE", "koord-batch", 40)],
        reservation=_reservation("nightly"),
        owner=_pod("nightly-run", PodRequest(8_000, 32_768, 1), labels={OWNER: "nightly"}),
        apart=[_apart(f"web-{number}") for number in range(ZONES + 1)],
        storage=[_storage_class(), _claim("data")],
        stored=_stored("db", "data"),
        spot=_spot("spot"),
        reports=[_on_spot(f"report-{number}", "koord-batch") for number in range(SPOT_PODS)],
        urgent=_on_spot("urgent", PRIORITY_CLASS),
        field=[_spot(f"field-{number}", "field") for number in range(FIELD)],
        sweep=_job_on_field("sweep", "koord-batch"),
        deadline=_job_on_field("deadline", PRIORITY_CLASS),
        over_quota=_pod("train-b", PodRequest(16_000, 65_536, 2 * SPARE_GPUS), labels={names.LABEL_QUOTA_NAME: QUOTA}),
        bad_input=_odd("typo", {names.GPU_CORE: "150", names.GPU_MEMORY_RATIO: "150"}),
        unsupported=_claims("claims"),
        late=singles[half:],
        inside=within,
        lending=lending(NAMESPACE),
        studio=studio(NAMESPACE),
        shop=shop(NAMESPACE),
    )


def _gpus(cluster: list[Json]) -> int:
    reported = (each["spec"]["devices"] for each in cluster if each["kind"] == "Device")
    return sum(1 for devices in reported for device in devices if device["type"] == "gpu")


def _pod(name: str, request: PodRequest, **more: Any) -> Json:
    more.setdefault("qos", "LS")
    more.setdefault("priority_class", PRIORITY_CLASS)
    return pod_manifest(name, request, namespace=NAMESPACE, **more)


def _quota(members: int) -> Json:
    """A group that may use what the gang needs, and a little more."""
    most = {names.GPU_CORE: str(100 * (members + SPARE_GPUS))}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": QUOTA, "namespace": NAMESPACE, "labels": {names.LABEL_QUOTA_IS_PARENT: "false"}},
        "spec": {"min": {names.GPU_CORE: str(100 * members)}, "max": most},
    }


def _gang(name: str, members: int) -> list[Json]:
    group: Json = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minMember": members, "scheduleTimeoutSeconds": 600},
    }
    labels = {names.LABEL_POD_GROUP: name, names.LABEL_QUOTA_NAME: QUOTA}
    request = PodRequest(4_000, 16_384, 1)
    return [group, *(_pod(f"{name}-{number}", request, labels=labels) for number in range(members))]


def _share(name: str, qos: str, priority_class: str, percent: int) -> Json:
    return _pod(name, PodRequest(2_000, 8_192, 1, 10 * percent), qos=qos, priority_class=priority_class)


def _reservation(name: str) -> Json:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"namespace": NAMESPACE}, "spec": PodRequest(8_000, 32_768, 1).spec()},
            "owners": [{"labelSelector": {"matchLabels": {OWNER: name}}}],
            "ttl": "24h",
        },
    }


def _apart(name: str) -> Json:
    """A pod that takes no zone in which one of its kind is."""
    manifest = _pod(name, PodRequest(500, 1_024), labels={"app": "web"})
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    manifest["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return manifest


def _storage_class() -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "disks.demo.berth.sh",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _claim(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "storageClassName": STORAGE_CLASS,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }


def _stored(name: str, claim: str) -> Json:
    manifest = _pod(name, PodRequest(500, 1_024))
    manifest["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return manifest


def _job_on_field(name: str, priority_class: str) -> list[Json]:
    """A strict gang whose members fill the nodes of the field, one each."""
    group: Json = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minMember": FIELD},
    }
    members = []
    for number in range(FIELD):
        labels = {names.LABEL_POD_GROUP: name}
        request = PodRequest(2_000 * SPOT_PODS, 2_048)
        manifest = _pod(f"{name}-{number}", request, labels=labels, priority_class=priority_class)
        members.append(_on(manifest, "field"))
    return [group, *members]


def _spot(name: str, value: str = "true") -> Json:
    """A node for `SPOT_PODS` pods that ask for it."""
    amounts = {"cpu": str(2 * SPOT_PODS), "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {SPOT: value, "kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": SPOT, "value": value, "effect": "NoSchedule"}]},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _on_spot(name: str, priority_class: str) -> Json:
    return _on(_pod(name, PodRequest(2_000, 2_048), priority_class=priority_class), "true")


def _on(manifest: Json, value: str) -> Json:
    """The pod for nodes with this value of the label alone."""
    manifest["spec"]["nodeSelector"] = {SPOT: value}
    manifest["spec"]["tolerations"] = [{"key": SPOT, "operator": "Exists"}]
    return manifest


def _claims(name: str) -> Json:
    """A pod that asks for a device by a resource claim."""
    manifest = _pod(name, PodRequest(1_000, 4_096))
    manifest["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]
    return manifest


def _odd(name: str, amounts: dict[str, str]) -> Json:
    """A pod whose GPU request is written by hand."""
    manifest = _pod(name, PodRequest(1_000, 4_096))
    resources = manifest["spec"]["containers"][0]["resources"]
    for part in ("requests", "limits"):
        resources[part] = {**resources[part], **amounts}
    return manifest
