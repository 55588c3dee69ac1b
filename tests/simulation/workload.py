"""What users and nodes do in one run, drawn from its seed: a list of timed actions, plain data.

A small cluster, so that room is scarce: nodes with a few GPUs, singles, shared GPUs, gangs of 2 to 64, Reservations
with their users, quota groups that compete, pods that end, are deleted, or are made again under the same name; nodes
that die, are cordoned, and come back with other devices.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final, NamedTuple

from berth.contracts.slo import CONFIG_MAP
from berth.simcluster.generate.build import PodRequest, device_manifest, node_manifest, pod_manifest
from berth.simcluster.kubelet import DURATION

Json = dict[str, Any]

HOME: Final = CONFIG_MAP.partition("/")[0]
NAMESPACE: Final = "team"
MODEL: Final = "T4"
GANG_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
OWNER_LABEL: Final = "app"
QUOTA_LABEL: Final = "quota.scheduling.koordinator.sh/name"
STRATEGY: Final = "resource-threshold-config"
PARENT: Final = "together"
GROUPS: Final = ("a", "b", "c")
CPU_MILLI: Final = 16_000
MEMORY_MIB: Final = 65_536


class Create(NamedTuple):
    """Make an object."""

    manifest: Json


class Put(NamedTuple):
    """Make an object, or give it this content when it is there."""

    manifest: Json


class Delete(NamedTuple):
    """Delete an object; `grace_s` 0 is by force."""

    kind: str
    name: str
    grace_s: int = 30


class Change(NamedTuple):
    """Merge this into an object."""

    kind: str
    name: str
    patch: Json


Action = Create | Put | Delete | Change


class Timed(NamedTuple):
    """An action and its time in virtual seconds."""

    at_s: float
    action: Action


class Size(NamedTuple):
    """How much happens. `end_s`: nothing is created after it."""

    nodes: int = 8
    singles: int = 90
    gangs: int = 6
    reservations: int = 4
    end_s: float = 220.0


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """What is there at the beginning: namespace, quota groups, nodes and their devices."""
    made: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    made += _quotas(rng, size)
    for number in range(size.nodes):
        made += node(f"node-{number}", rng.choice((2, 4, 8)), number)
    return made


def node(name: str, gpus: int, number: int = 0) -> list[Json]:
    """A Node and its Device."""
    plain = node_manifest(name, cpu_milli=CPU_MILLI, memory_mib=MEMORY_MIB, model=MODEL, index=number)
    return [plain, device_manifest(name, MODEL, gpus)]


def actions(rng: random.Random, size: Size) -> list[Timed]:
    """Everything that users and nodes do, in order of time."""
    done: list[Timed] = []
    for number in range(size.singles):
        done += _single(rng, size, number)
    for number in range(size.gangs):
        done += _gang(rng, size, number)
    for number in range(size.reservations):
        done += _reservation(rng, size, number)
    done += _nodes(rng, size)
    done += _strategies(rng, size)
    return sorted(done, key=lambda timed: timed.at_s)


def _quotas(rng: random.Random, size: Size) -> list[Json]:
    """A parent with a part of the cluster; leaves that may use more than their min, together more than the parent."""
    share = rng.choice((0.15, 0.4, 1.0))
    cpu, gpus = int(size.nodes * CPU_MILLI * share), int(size.nodes * 400 * share)
    total = {
        "cpu": f"{cpu}m",
        "memory": f"{int(size.nodes * MEMORY_MIB * share)}Mi",
        "koordinator.sh/gpu-core": f"{gpus}",
    }
    made = [_quota(PARENT, "", total, total)]
    for group in GROUPS:
        least, most = rng.uniform(0.05, 0.2), rng.uniform(0.2, 0.6)
        made.append(_quota(group, PARENT, _part(total, least), _part(total, most)))
    return made


def _part(total: dict[str, str], share: float) -> dict[str, str]:
    units = {"cpu": "m", "memory": "Mi"}
    parts = {}
    for name, text in total.items():
        unit = units.get(name, "")
        parts[name] = f"{int(int(text.removesuffix(unit)) * share)}{unit}"
    return parts


def _quota(name: str, parent: str, least: dict[str, str], most: dict[str, str]) -> Json:
    labels = {"quota.scheduling.koordinator.sh/is-parent": json.dumps(not parent)}
    if parent:
        labels["quota.scheduling.koordinator.sh/parent"] = parent
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"min": least, "max": most},
    }


def _request(rng: random.Random) -> PodRequest:
    cpu, memory = rng.choice((500, 1_000, 2_000, 4_000)), rng.choice((512, 2_048, 8_192))
    kind = rng.random()
    if kind < 0.3:
        return PodRequest(cpu, memory)
    if kind < 0.65:
        return PodRequest(cpu, memory, 1, rng.choice((200, 250, 500, 600, 800)))
    return PodRequest(cpu, memory, rng.choice((1, 1, 2, 4)))


def _single(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """A pod; it may end by itself, be deleted, or be deleted and made again under its name."""
    at_s = rng.uniform(0.0, size.end_s)
    labels = {QUOTA_LABEL: rng.choice(GROUPS)} if rng.random() < 0.4 else {}
    if labels and rng.random() < 0.2:
        labels["quota.scheduling.koordinator.sh/preemptible"] = "false"
    notes = {DURATION: f"{rng.uniform(5, 90):.1f}s"} if rng.random() < 0.35 else {}
    name = f"pod-{number}"

    def make() -> Create:
        return Create(pod_manifest(name, _request(rng), namespace=NAMESPACE, labels=labels, annotations=notes))

    done = [Timed(at_s, make())]
    if rng.random() < 0.35:
        gone_s = at_s + rng.choice((0.02, 0.2, 1.0, 5.0, 40.0)) * rng.uniform(0.5, 2.0)
        grace_s = rng.choice((0, 0, 30))
        done.append(Timed(gone_s, Delete("Pod", name, grace_s)))
        if rng.random() < 0.5:
            done.append(Timed(gone_s + rng.choice((0.001, 0.05, 1.0)) + (1.0 if grace_s else 0.0), make()))
    return done


def _gang(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """Members come within some seconds; large gangs ask for little."""
    members = rng.choice((2, 2, 3, 4, 4, 8, 16, 64))
    request = PodRequest(500, 256) if members > 8 else PodRequest(1_000, 1_024, 1, rng.choice((300, 500, 1_000)))
    at_s, name = rng.uniform(0.0, size.end_s), f"gang-{number}"
    labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    done: list[Timed] = []
    if rng.random() < 0.5:
        labels[GANG_LABEL] = name
        group = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"minMember": members, "scheduleTimeoutSeconds": 600},
        }
        done.append(Timed(max(0.0, at_s + rng.uniform(-0.5, 0.5)), Create(group)))
    else:
        notes["gang.scheduling.koordinator.sh/name"] = name
        notes["gang.scheduling.koordinator.sh/min-available"] = str(members)
    if rng.random() < 0.3:
        labels[QUOTA_LABEL] = rng.choice(GROUPS)
    for member in range(members):
        pod = pod_manifest(f"{name}-{member}", request, namespace=NAMESPACE, labels=labels, annotations=notes)
        done.append(Timed(at_s + rng.uniform(0.0, 2.0), Create(pod)))
    if rng.random() < 0.5:
        gone_s = at_s + rng.uniform(1.0, 60.0)
        done += [
            Timed(gone_s + rng.uniform(0.0, 1.0), Delete("Pod", f"{name}-{member}", 0)) for member in range(members)
        ]
    return done


def _reservation(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """A Reservation of a card, and its users before, at, and after its time."""
    at_s, name = rng.uniform(0.0, size.end_s * 0.7), f"kept-{number}"
    request, users = PodRequest(2_000, 4_096, 1), rng.choice((1, 1, 2, 3))
    made: Json = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"namespace": NAMESPACE}, "spec": request.spec()},
            "owners": [{"labelSelector": {"matchLabels": {OWNER_LABEL: name}}}],
            "ttl": f"{rng.choice((20, 60, 3_600))}s",
            "allocateOnce": rng.random() < 0.5,
        },
    }
    done = [Timed(at_s, Create(made))]
    small = PodRequest(500, 512, 1, 300)
    for user in range(users):
        pod = pod_manifest(
            f"{name}-user-{user}",
            small if users > 1 else request,
            namespace=NAMESPACE,
            labels={OWNER_LABEL: name},
            annotations={DURATION: f"{rng.uniform(5, 60):.1f}s"} if rng.random() < 0.5 else {},
        )
        done.append(Timed(max(0.0, at_s + rng.uniform(-3.0, 30.0)), Create(pod)))
    if rng.random() < 0.3:
        done.append(Timed(at_s + rng.uniform(1.0, 40.0), Delete("Reservation", name, 0)))
    return done


def _nodes(rng: random.Random, size: Size) -> list[Timed]:
    """Nodes that die and come back with other devices, a card that breaks, a cordon."""
    done: list[Timed] = []
    for number in range(size.nodes):
        name, kind = f"node-{number}", rng.random()
        at_s = rng.uniform(5.0, size.end_s)
        back_s = at_s + rng.choice((0.05, 2.0, 20.0)) * rng.uniform(0.5, 1.5)
        if kind < 0.12:
            done += [Timed(at_s, Delete("Device", name, 0)), Timed(at_s, Delete("Node", name, 0))]
            done += [Timed(back_s, Create(each)) for each in node(name, rng.choice((1, 2, 4)), number)]
        elif kind < 0.24:
            devices = device_manifest(name, MODEL, rng.choice((1, 2, 4, 8)))["spec"]["devices"]
            for device in devices:
                device["health"] = rng.random() < 0.8
            done.append(Timed(at_s, Change("Device", name, {"spec": {"devices": devices}})))
        elif kind < 0.4:
            done.append(Timed(at_s, Change("Node", name, {"spec": {"unschedulable": True}})))
            done.append(Timed(back_s, Change("Node", name, {"spec": {"unschedulable": None}})))
    return done


def strategy_manifest(*, enable: bool, percent: int) -> Json:
    """The ConfigMap that says what best-effort pods may use of a node."""
    strategy = {"enable": enable, "cpuSuppressThresholdPercent": percent, "cpuSuppressPolicy": "cfsQuota"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP.partition("/")[2], "namespace": HOME},
        "data": {STRATEGY: json.dumps({"clusterStrategy": strategy})},
    }


def _strategies(rng: random.Random, size: Size) -> list[Timed]:
    """Strategies, set by somebody and thought over now and then."""
    done: list[Timed] = []
    for _ in range(rng.choice((0, 1, 3))):
        manifest = strategy_manifest(enable=rng.random() < 0.7, percent=rng.randrange(40, 90))
        done.append(Timed(rng.uniform(0.0, size.end_s), Put(manifest)))
    return done
