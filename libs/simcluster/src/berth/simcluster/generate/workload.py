"""A synthetic workload: single pods, shared GPUs, gangs, reservations with owners, quota groups that compete."""

import json
import random
from dataclasses import dataclass

from berth.simcluster.generate.build import SCHEDULER, PodRequest, pod_manifest
from berth.simcluster.generate.shares import POD_CLASSES, PodClass
from berth.simcluster.kubelet import DURATION
from berth.simcluster.store.objects import Json

PODS_LIMIT = 1_000_000
_PRIORITIES = (("koord-prod", 9000), ("koord-mid", 7000), ("koord-batch", 5000), ("koord-free", 3000))
_QUOTA_NAME = "quota.scheduling.koordinator.sh/name"
_QUOTA_PARENT = "quota.scheduling.koordinator.sh/parent"
_QUOTA_IS_PARENT = "quota.scheduling.koordinator.sh/is-parent"
_GANG = "gang.scheduling.koordinator.sh/"
_POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
_OWNER = "sim.berth.sh/reservation"
_COUNTED = ("cpu", "memory", "koordinator.sh/gpu-core")


@dataclass(frozen=True, slots=True)
class WorkloadShape:
    """How the workload is to be. `pods` counts the singles; gangs and owners of reservations come on top."""

    pods: int = 1000
    classes: tuple[PodClass, ...] = POD_CLASSES
    gangs: int = 0
    gang_members: int = 8
    gang_gpus: int = 1  # whole cards per member
    reservations: int = 0
    owners_per_reservation: int = 1
    quota_groups: int = 0  # leaf groups under one parent; the first asks for the most
    mean_duration_s: float = 0.0  # of singles, exponential; 0: they run for ever
    priority_classes: bool = False  # LS pods get koord-prod, BE pods koord-batch
    namespace: str = "default"
    scheduler: str = SCHEDULER
    prefix: str = "pod"

    def problem(self) -> str:
        """What is wrong; empty if nothing."""
        for name in ("pods", "gangs", "gang_gpus", "reservations", "quota_groups"):
            if not 0 <= getattr(self, name) <= PODS_LIMIT:
                return f"{name}: must be between 0 and {PODS_LIMIT}"
        for name in ("gang_members", "owners_per_reservation"):
            if not 1 <= getattr(self, name) <= 100_000:
                return f"{name}: must be between 1 and 100000"
        if not 0 <= self.mean_duration_s <= 1e8:
            return "mean_duration_s: must be between 0 and 1e8"
        return "" if self.classes else "classes: at least one"


def generate_workload(shape: WorkloadShape, *, seed: int = 0) -> list[Json]:
    """Manifests in the order in which they are to be created. Raises ValueError naming the field that is wrong."""
    problem = shape.problem()
    if problem:
        raise ValueError(problem)
    rng = random.Random(seed)
    singles = _singles(shape, rng)
    gangs = [manifest for number in range(shape.gangs) for manifest in _gang(shape, number)]
    reserved = [manifest for number in range(shape.reservations) for manifest in _reservation(shape, number)]
    pods = [manifest for manifest in [*singles, *gangs, *reserved] if manifest["kind"] == "Pod"]
    head = _priority_classes() if shape.priority_classes else []
    if shape.quota_groups:
        head += _quotas(shape, pods, rng)
    return [*head, *reserved, *gangs, *singles]


def _singles(shape: WorkloadShape, rng: random.Random) -> list[Json]:
    weights = [each.weight for each in shape.classes]
    result = []
    for number, each in enumerate(rng.choices(shape.classes, weights, k=shape.pods) if shape.pods else ()):
        qos = "BE" if rng.random() * each.weight < each.best_effort else "LS"
        annotations = {}
        if shape.mean_duration_s:
            annotations[DURATION] = f"{rng.expovariate(1 / shape.mean_duration_s):.1f}s"
        result.append(
            pod_manifest(
                f"{shape.prefix}-{number:06d}",
                PodRequest(each.cpu_milli, each.memory_mib, each.gpus, each.gpu_milli),
                namespace=shape.namespace,
                qos=qos,
                annotations=annotations,
                scheduler=shape.scheduler,
                priority_class=("koord-batch" if qos == "BE" else "koord-prod") if shape.priority_classes else "",
            )
        )
    return result


def _gang(shape: WorkloadShape, number: int) -> list[Json]:
    """Even ones by a PodGroup, odd ones by annotations: both ways of the protocol."""
    name, members = f"gang-{number:04d}", shape.gang_members
    request = PodRequest(8_000 * max(1, shape.gang_gpus), 32_768, shape.gang_gpus)
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    result: list[Json] = []
    if number % 2 == 0:
        labels[_POD_GROUP] = name
        result.append(
            {
                "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": shape.namespace},
                "spec": {"minMember": members, "scheduleTimeoutSeconds": 600},
            }
        )
    else:
        annotations = {
            f"{_GANG}name": name,
            f"{_GANG}min-available": str(members),
            f"{_GANG}total-number": str(members),
        }
    pods = (
        pod_manifest(
            f"{name}-{member:04d}",
            request,
            namespace=shape.namespace,
            qos="LS",
            labels=labels,
            annotations=annotations,
            scheduler=shape.scheduler,
            priority_class="koord-prod" if shape.priority_classes else "",
        )
        for member in range(members)
    )
    return [*result, *pods]


def _reservation(shape: WorkloadShape, number: int) -> list[Json]:
    """A Reservation of one card, and the pods that own it."""
    name = f"reservation-{number:04d}"
    request = PodRequest(8_000, 32_768, 1)
    reservation: Json = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"namespace": shape.namespace},
                "spec": request.spec(scheduler=shape.scheduler),
            },
            "owners": [{"labelSelector": {"matchLabels": {_OWNER: name}}}],
            "ttl": "24h",
            "allocateOnce": shape.owners_per_reservation == 1,
        },
    }
    owners = [
        pod_manifest(
            f"{name}-owner-{owner:03d}",
            request,
            namespace=shape.namespace,
            qos="LS",
            labels={_OWNER: name},
            scheduler=shape.scheduler,
        )
        for owner in range(shape.owners_per_reservation)
    ]
    return [reservation, *owners]


def _priority_classes() -> list[Json]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": f"Pods of class {name}.",
        }
        for name, value in _PRIORITIES
    ]


def _quotas(shape: WorkloadShape, pods: list[Json], rng: random.Random) -> list[Json]:
    """Groups that are promised half of all demand in equal parts, and may use what others leave; the demand itself is
    skewed.

    Pods are labelled here. Group k is chosen with weight 1/(k+1), so the first one asks for more than its part.
    """
    groups = [f"team-{number}" for number in range(shape.quota_groups)]
    weights = [1 / (number + 1) for number in range(len(groups))]
    gang_group: dict[str, str] = {}
    total = dict.fromkeys(_COUNTED, 0)
    for pod in pods:
        group = rng.choices(groups, weights)[0]
        meta = pod["metadata"]
        gang = meta["labels"].get(_POD_GROUP) or meta.get("annotations", {}).get(f"{_GANG}name")
        if gang:
            group = gang_group.setdefault(gang, group)  # a gang does not straddle groups
        meta["labels"][_QUOTA_NAME] = group
        amounts = pod["spec"]["containers"][0]["resources"]["requests"]
        for name in _COUNTED:
            total[name] += int(amounts.get(name, "0").removesuffix("Mi").removesuffix("m"))
    parent = "teams"
    result = [_quota(shape, parent, "", total, 1.0, 1.0, is_parent=True)]
    share = 0.5 / len(groups)
    return result + [
        _quota(shape, group, parent, total, share, min(1.0, 2 * share), is_parent=False) for group in groups
    ]


def _quota(
    shape: WorkloadShape, name: str, parent: str, total: dict[str, int], least: float, most: float, *, is_parent: bool
) -> Json:
    def amounts(share: float) -> dict[str, str]:
        units = {"cpu": "m", "memory": "Mi"}
        return {key: f"{int(value * share)}{units.get(key, '')}" for key, value in total.items()}

    labels = {_QUOTA_IS_PARENT: json.dumps(is_parent)}
    if parent:
        labels[_QUOTA_PARENT] = parent
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": shape.namespace, "labels": labels},
        "spec": {"min": amounts(least), "max": amounts(most)},
    }
