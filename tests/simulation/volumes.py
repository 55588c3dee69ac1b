"""Claims of one run and the pods that use them: bound from the beginning, bound to a local volume or made when a pod
has its node, used by one pod alone or by many; and what comes and goes under them."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation import workload
from tests.simulation.workload import NAMESPACE, ZONE, Create, Delete, Json, Size, Timed

from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

DRIVER: Final = "disks.csi.example.com"
LATE: Final = "late"
"""The class of which a volume is made where the pod goes."""
AT_ONCE: Final = "at-once"
"""The class of which one is made before."""
LOCAL: Final = "local"
"""The class of volumes that lie on one node each."""
HOSTNAME: Final = "kubernetes.io/hostname"
ONE_POD: Final = "ReadWriteOncePod"
SIZE_GIB: Final = (1, 5)


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """The ordinary cluster, and what its storage offers."""
    return [*workload.cluster(rng, size), *storage(rng, size.nodes)]


def storage(rng: random.Random, nodes: int) -> list[Json]:
    """Classes, how many volumes each node takes, and some local volumes."""
    made = [
        _storage_class(LATE, DRIVER, "WaitForFirstConsumer", rng.choice(("Delete", "Retain"))),
        _storage_class(AT_ONCE, DRIVER, "Immediate", "Delete"),
        _storage_class(LOCAL, "kubernetes.io/no-provisioner", "WaitForFirstConsumer", "Retain"),
    ]
    for number in range(nodes):
        made.append(_csi_node(f"node-{number}", rng.choice((1, 2, 4, 16))))
        made += [
            _local_volume(f"local-{number}-{each}", f"node-{number}", rng.choice(SIZE_GIB))
            for each in range(rng.choice((0, 1, 2)))
        ]
    return made


def draw(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """A claim and its users, who come over a while; a pod with an ephemeral volume now and then."""
    begin_s, name = rng.uniform(0.0, size.end_s * 0.8), f"claim-{number}"
    storage_class = rng.choice((LATE, LATE, AT_ONCE, LOCAL))
    mode = rng.choice(("ReadWriteOnce", ONE_POD)) if storage_class != AT_ONCE else ONE_POD
    done = [Timed(begin_s, Create(claim(name, storage_class, mode, rng.choice(SIZE_GIB))))]
    users = rng.choice((1, 2, 3))
    done += [each for user in range(users) for each in _user(rng, size, begin_s, f"{name}-user-{user}", name)]
    if rng.random() < 0.3:
        done += _made_again(rng, size, name, users, begin_s, storage_class)
    if rng.random() < 0.3:
        done += _ephemeral(rng, size, number)
    return done


def _user(rng: random.Random, size: Size, begin_s: float, name: str, claim_name: str) -> list[Timed]:
    """A pod that ends, is deleted, or stays; it may come before its claim."""
    at_s = min(size.end_s, max(0.0, begin_s + rng.uniform(-2.0, 30.0)))
    notes = {DURATION: f"{rng.uniform(4.0, 40.0):.1f}s"} if rng.random() < 0.6 else {}
    pod = user(name, claim_name, notes=notes, cpu_milli=rng.choice((250, 2_000)))
    done = [Timed(at_s, Create(pod))]
    if rng.random() < 0.4:
        gone_s = at_s + rng.choice((0.05, 0.5, 3.0, 30.0)) * rng.uniform(0.5, 2.0)
        done.append(Timed(gone_s, Delete("Pod", name, rng.choice((0, 30)))))
    return done


def _made_again(
    rng: random.Random, size: Size, name: str, users: int, begin_s: float, storage_class: str
) -> list[Timed]:
    """The claim goes once its users have, and another one comes under its name, with a user of its own."""
    at_s = min(size.end_s, begin_s + rng.choice((0.3, 5.0, 50.0)) * rng.uniform(0.5, 2.0))
    done = [Timed(at_s, Delete("Pod", f"{name}-user-{each}", 0)) for each in range(users)]
    done.append(Timed(at_s + 0.001, Delete("PersistentVolumeClaim", name, 0)))
    again_s = at_s + rng.choice((0.01, 1.0, 8.0))
    again = claim(name, storage_class, "ReadWriteOnce", rng.choice(SIZE_GIB))
    return [*done, Timed(again_s, Create(again)), Timed(again_s + 0.1, Create(user(f"{name}-user-again", name)))]


def _ephemeral(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """A pod with a volume that is made for it and goes with it."""
    at_s, name = rng.uniform(0.0, size.end_s), f"scratch-{number}"
    pod = pod_manifest(name, PodRequest(250, 256), namespace=NAMESPACE, annotations={DURATION: "20s"})
    template = {"spec": claim(name, rng.choice((LATE, LATE, LOCAL)), "ReadWriteOnce", 1)["spec"]}
    pod["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    return [Timed(at_s, Create(pod)), Timed(at_s + rng.uniform(1.0, 60.0), Delete("Pod", name, 0))]


def alone(rng: random.Random, size: Size) -> list[Timed]:
    """Nothing but claims and their users."""
    claims = [timed for number in range(size.claims) for timed in draw(rng, size, number)]
    return sorted(claims, key=lambda timed: timed.at_s)


def local(rng: random.Random, size: Size) -> list[Timed]:
    """Claims of local volumes, more than there are, and all at once."""
    done: list[Timed] = []
    for number in range(size.claims):
        at_s, name = 4.0 + 20.0 * (number % int(size.end_s // 20.0)) + rng.uniform(0.0, 1.0), f"claim-{number}"
        done.append(Timed(at_s, Create(claim(name, LOCAL, "ReadWriteOnce", 1))))
        done.append(Timed(at_s + 0.1, Create(user(f"{name}-user", name, notes={DURATION: "12s"}))))
    return sorted(done, key=lambda timed: timed.at_s)


# --- objects ----------------------------------------------------------------------------------------------------------


def claim(name: str, storage_class: str, mode: str, gib: int) -> Json:
    """A PersistentVolumeClaim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": [mode],
            "resources": {"requests": {"storage": f"{gib}Gi"}},
        },
    }


def user(name: str, *claims: str, notes: dict[str, str] | None = None, cpu_milli: int = 250) -> Json:
    """A pod that uses claims."""
    pod = pod_manifest(name, PodRequest(cpu_milli, 256), namespace=NAMESPACE, annotations=notes)
    pod["spec"]["volumes"] = [
        {"name": f"v-{at}", "persistentVolumeClaim": {"claimName": each}} for at, each in enumerate(claims)
    ]
    return pod


def _storage_class(name: str, provisioner: str, mode: str, policy: str) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        "reclaimPolicy": policy,
    }


def _csi_node(node: str, count: int) -> Json:
    driver = {"name": DRIVER, "nodeID": node, "topologyKeys": [ZONE], "allocatable": {"count": count}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node},
        "spec": {"drivers": [driver]},
    }


def _local_volume(name: str, node: str, gib: int) -> Json:
    expressions = [{"key": HOSTNAME, "operator": "In", "values": [node]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": f"{gib}Gi"},
            "accessModes": ["ReadWriteOnce", ONE_POD],
            "storageClassName": LOCAL,
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
        },
    }
