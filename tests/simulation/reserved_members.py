"""Gangs of one run of which some members are Reservations; who uses those, and what ends them."""

from __future__ import annotations

import random

from tests.simulation.gathers import topology
from tests.simulation.workload import GANG_LABEL, NAMESPACE, OWNER_LABEL, Create, Delete, Json, Size, Timed

from berth.contracts import names
from berth.simcluster.generate.build import PodRequest, pod_manifest

REQUEST = PodRequest(1_000, 1_024)
ON_ONE_NODE = '{"gatherStrategy":[{"layer":"NodeTopologyLayer","strategy":"MustGather"}]}'


def crowd(rng: random.Random, size: Size) -> list[Timed]:
    """Gangs of pods and Reservations."""
    done = [Timed(0.0, Create(topology()))]
    for number in range(size.gangs):
        done += _gang(rng, size, number)
    return sorted(done, key=lambda timed: timed.at_s)


def _gang(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """By PodGroup or by what its members say; some have to be on one node."""
    name, at_s = f"gang-{number}", rng.uniform(3.0, size.end_s)
    pods, reserved = rng.choice((0, 1, 2, 3)), rng.choice((1, 1, 2))
    least = pods + reserved - (rng.random() < 0.25 and pods + reserved > 1)
    said = {} if rng.random() < 0.85 else {names.ANNOTATION_GANG_MODE: "NonStrict"}
    if rng.random() < 0.3:
        said[names.ANNOTATION_GANG_TOPOLOGY] = ON_ONE_NODE
    labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    done: list[Timed] = []
    if rng.random() < 0.5:
        labels = {GANG_LABEL: name}
        group: Json = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": said},
            "spec": {"minMember": least},
        }
        done.append(Timed(at_s, Create(group)))
    else:
        notes = {**said, names.ANNOTATION_GANG_NAME: name, names.ANNOTATION_GANG_MIN: str(least)}
    for member in range(pods):
        pod = pod_manifest(f"{name}-{member}", REQUEST, namespace=NAMESPACE, labels=labels, annotations=notes)
        done.append(Timed(at_s + rng.uniform(0.0, 2.0), Create(pod)))
    for member in range(reserved):
        done += _reservation(rng, f"kept-{number}-{member}", at_s, labels, notes)
    gone_s = at_s + rng.uniform(15.0, 40.0)
    done += [Timed(gone_s, Delete("Pod", f"{name}-{member}", 0)) for member in range(pods)]
    return done


def _reservation(
    rng: random.Random, name: str, at_s: float, labels: dict[str, str], notes: dict[str, str]
) -> list[Timed]:
    """Its template, or it itself, says of which gang it is. A user of it may be a member of that as well."""
    by_itself = bool(notes) and rng.random() < 0.3
    template = {"namespace": NAMESPACE, "labels": labels, "annotations": {} if by_itself else notes}
    made: Json = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "annotations": notes if by_itself else {}},
        "spec": {
            "template": {"metadata": template, "spec": REQUEST.spec()},
            "owners": [{"labelSelector": {"matchLabels": {OWNER_LABEL: name}}}],
            "ttl": f"{rng.choice((6, 25, 3_600, 3_600))}s",
            "allocateOnce": rng.random() < 0.5,
        },
    }
    done = [Timed(at_s + rng.uniform(0.0, 2.0), Create(made))]
    if rng.random() < 0.5:
        own = {OWNER_LABEL: name, **(labels if rng.random() < 0.5 else {})}
        user = pod_manifest(
            f"{name}-user-0", REQUEST, namespace=NAMESPACE, labels=own, annotations=notes if rng.random() < 0.5 else {}
        )
        used_s = at_s + rng.uniform(4.0, 20.0)
        done += [
            Timed(used_s, Create(user)),
            Timed(used_s + rng.uniform(5.0, 20.0), Delete("Pod", f"{name}-user-0", 0)),
        ]
    gone_s = at_s + (rng.uniform(0.5, 3.0) if rng.random() < 0.3 else rng.uniform(10.0, 40.0))
    return [*done, Timed(gone_s, Delete("Reservation", name, 0))]
