"""The workload of every run: singles, shared GPUs, gangs of four and eight, reservations with their users, pods of
quota groups that ask for more than they may have, pods that come back under their old name, and probes.

Everything is made from a seeded generator; every arrival says how long it stays.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from berth.contracts import names
from berth.simcluster.generate import ClusterShape, PodRequest, generate_cluster, pod_manifest
from berth.simcluster.generate.shares import POD_CLASSES

Json = dict[str, Any]

NAMESPACE = "default"
PROBE = "probe"
OWNER = "chaos.berth.sh/reservation"
TEAMS = ("team-a", "team-b")
GANG_SIZES = (4, 8)
NAMES_AGAIN = 6
"""So many names are used by one pod after the other."""
_GPU = "koordinator.sh/gpu-core"


class Arrival(NamedTuple):
    """Objects that come together, in order, and go together, in the opposite order, after `stay_s`."""

    manifests: list[Json]
    stay_s: float


def cluster(nodes: int, seed: int) -> list[Json]:
    """Nodes with and without GPUs, two quota groups that are soon full, and what probes need."""
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PROBE},
        "value": 10_000,
    }
    teams = [
        _quota("teams", "", {"cpu": "64", _GPU: "800"}),
        *(_quota(t, "teams", {"cpu": "48", _GPU: "600"}) for t in TEAMS),
    ]
    return [priority, *teams, *generate_cluster(ClusterShape(nodes=nodes, cpu_only_share=0.1), seed=seed)]


def _quota(name: str, parent: str, most: dict[str, str]) -> Json:
    labels = {names.LABEL_QUOTA_IS_PARENT: "false" if parent else "true"}
    if parent:
        labels[names.LABEL_QUOTA_PARENT] = parent
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"min": {key: str(int(value) // 4) for key, value in most.items()}, "max": most},
    }


class Mix:
    """What comes next. `tick` is a quarter of a second of the steady rate."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def tick(self) -> Iterator[Arrival]:
        """Two probes, two singles and a pod of a quota group; now and then a gang, a reservation, a name again."""
        self._count += 1
        number = self._count
        yield self._probe(f"{PROBE}-{number}-0")
        yield self._probe(f"{PROBE}-{number}-1")
        yield self._single(f"single-{number}-0")
        yield self._single(f"single-{number}-1")
        yield self._of_a_team(f"team-{number}")
        if number % 8 == 0:
            yield self._gang(f"gang-{number}", GANG_SIZES[number // 8 % len(GANG_SIZES)])
        if number % 8 == 4:
            yield self._reservation(f"reserved-{number}")
        if number % 3 == 0:
            yield Arrival([_pod(f"again-{number // 3 % NAMES_AGAIN}", PodRequest(2_000, 4_096, 1, 500))], 1.5)

    def _probe(self, name: str) -> Arrival:
        """A pod that fits anywhere and goes first."""
        return Arrival([_pod(name, PodRequest(1, 1), priority_class=PROBE)], 3.0)

    def _stay(self) -> float:
        return self._random.uniform(6.0, 18.0)

    def _single(self, name: str) -> Arrival:
        (kind,) = self._random.choices(POD_CLASSES, [each.weight for each in POD_CLASSES])
        request = PodRequest(kind.cpu_milli, kind.memory_mib, kind.gpus, kind.gpu_milli)
        return Arrival([_pod(name, request, qos="LS")], self._stay())

    def _of_a_team(self, name: str) -> Arrival:
        team = {names.LABEL_QUOTA_NAME: self._random.choice(TEAMS)}
        return Arrival([_pod(name, PodRequest(4_000, 8_192, 1, 500), labels=team)], self._stay())

    def _gang(self, name: str, members: int) -> Arrival:
        labels: dict[str, str] = {}
        notes: dict[str, str] = {}
        manifests: list[Json] = []
        if members == GANG_SIZES[0]:  # both ways of the protocol
            labels = {names.LABEL_POD_GROUP: name}
            group = {
                "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"minMember": members},
            }
            manifests.append(group)
        else:
            marks = {"name": name, "min-available": str(members), "total-number": str(members)}
            notes = {f"{names.GANG_PREFIX}{key}": value for key, value in marks.items()}
        request = PodRequest(8_000, 16_384, 1)
        pods = [_pod(f"{name}-{member}", request, labels=labels, annotations=notes) for member in range(members)]
        return Arrival([*manifests, *pods], self._stay())

    def _reservation(self, name: str) -> Arrival:
        request = PodRequest(8_000, 16_384, 1)
        reservation = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": {
                "template": {"metadata": {"namespace": NAMESPACE}, "spec": request.spec()},
                "owners": [{"labelSelector": {"matchLabels": {OWNER: name}}}],
                "ttl": "24h",
            },
        }
        return Arrival([reservation, _pod(f"{name}-user", request, labels={OWNER: name})], self._stay())


def _pod(name: str, request: PodRequest, **more: Any) -> Json:
    return pod_manifest(name, request, namespace=NAMESPACE, **more)
