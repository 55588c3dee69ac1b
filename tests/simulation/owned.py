"""ReplicaSets of one run, which make another pod for each that leaves, with their disruption budgets; pods that must
not be evicted, and pods that are held back by a gate for a while."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.mates import HELD
from tests.simulation.planted.users import BURST_EVERY_S, _members, cards
from tests.simulation.workload import (
    MIRROR,
    NAMESPACE,
    PRIORITIES,
    PROTECTED,
    Change,
    Create,
    Delete,
    Json,
    Place,
    Size,
    Timed,
    priority_class,
)

from berth.contracts import names
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

SET_LABEL: Final = "set"
GATE: Final = "team/not-yet"
FICKLE_S: Final = 12.0
"""When the first of those come who are gone again soon; others every `BURST_EVERY_S`."""
REQUESTS: Final = (PodRequest(2_000, 1_024), PodRequest(4_000, 2_048), PodRequest(1_000, 1_024, 1))


def draw(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """A ReplicaSet: its pods are low mostly; some have a budget, some may not be evicted. It shrinks and goes."""
    name, at_s = f"set-{number}", rng.uniform(0.0, size.end_s * 0.4)
    count = rng.choice((2, 4, 6))
    labels = {SET_LABEL: name} | (dict([rng.choice(PROTECTED)]) if rng.random() < 0.25 else {})
    made = replicas(name, count, rng.choice(REQUESTS), labels, rng.choice(("low", "low", "")))
    done = [Timed(at_s, Create(made))]
    if rng.random() < 0.6:
        done.append(Timed(at_s, Create(budget(name, rng.choice((0, 1, count - 1, count))))))
    if rng.random() < 0.5:
        done.append(Timed(at_s + rng.uniform(10.0, 80.0), Change("ReplicaSet", name, {"spec": {"replicas": 1}})))
    if rng.random() < 0.5:
        done.append(Timed(rng.uniform(at_s + 20.0, size.end_s), Delete("ReplicaSet", name, 0)))
    return done


def gated(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """A pod that may be placed only some time after it came; it may be deleted before."""
    name, at_s = f"gated-{number}", rng.uniform(0.0, size.end_s * 0.8)
    pod = pod_manifest(name, PodRequest(500, 512), namespace=NAMESPACE)
    pod["spec"]["schedulingGates"] = [{"name": GATE}]
    opened_s = at_s + rng.choice((0.1, 5.0, 40.0)) * rng.uniform(0.5, 1.5)
    if rng.random() < 0.2:
        return [Timed(at_s, Create(pod)), Timed(opened_s, Delete("Pod", name, 0))]
    return [Timed(at_s, Create(pod)), Timed(opened_s, Change("Pod", name, {"spec": {"schedulingGates": None}}))]


def mirror(rng: random.Random, size: Size, number: int) -> Timed:
    """A pod of a kubelet itself, of low priority: nobody but that kubelet can make it leave."""
    name = f"mirror-{number}"
    notes = {MIRROR: name, DURATION: f"{rng.uniform(20.0, 120.0):.1f}s"}
    pod = pod_manifest(name, PodRequest(2_000, 512), namespace=NAMESPACE, annotations=notes, scheduler="kubelet")
    pod["spec"] |= {"nodeName": f"node-{rng.randrange(size.nodes)}", "priorityClassName": "low"}
    return Timed(rng.uniform(0.0, size.end_s * 0.5), Place(pod))


def fickle(rng: random.Random, size: Size) -> list[Timed]:
    """Sets that stay and fill the nodes; now and then some pods of higher priority, which are deleted soon."""
    done: list[Timed] = []
    for number in range(size.sets):
        made = replicas(f"set-{number}", 4, REQUESTS[number % 2], {SET_LABEL: f"set-{number}"}, "low")
        done.append(Timed(rng.uniform(0.0, 3.0), Create(made)))
    for number in range(size.singles):
        at_s = FICKLE_S + BURST_EVERY_S * (number % int(size.end_s / BURST_EVERY_S)) + rng.uniform(0.0, 3.0)
        name = f"pod-{number}"
        pod = pod_manifest(name, rng.choice(REQUESTS), namespace=NAMESPACE, priority_class="high")
        done += [Timed(at_s, Create(pod)), Timed(at_s + rng.uniform(4.0, 8.0), Delete("Pod", name, 0))]
    return sorted(done, key=lambda timed: timed.at_s)


def halved(rng: random.Random, size: Size) -> list[Timed]:
    """Sets that stay and fill the nodes; again and again a gang of two of higher priority, of which one is deleted when
    others are about to leave for both."""
    done = fickle(rng, size._replace(singles=0))
    for number in range(size.gangs):
        at_s = FICKLE_S + (size.end_s - 2 * FICKLE_S) * number / size.gangs
        notes = {names.ANNOTATION_GANG_NAME: f"pair-{number}", names.ANNOTATION_GANG_MIN: "2"}
        for member, gone_after_s in enumerate((rng.uniform(0.1, 0.6), rng.uniform(4.0, 6.0))):
            name = f"pair-{number}-{member}"
            pod = pod_manifest(name, REQUESTS[0], namespace=NAMESPACE, priority_class="high", annotations=notes)
            done += [Timed(at_s, Create(pod)), Timed(at_s + gone_after_s, Delete("Pod", name, 0))]
    return sorted(done, key=lambda timed: timed.at_s)


def lingering(rng: random.Random, size: Size) -> list[Timed]:
    """Low pods that fill the nodes and are terminating for long once they are deleted, and higher ones that come."""
    done: list[Timed] = []
    for number in range(size.singles):
        name, is_low = f"pod-{number}", number % 2 == 0
        request, priority = rng.choice(REQUESTS[:2]), "low" if is_low else "high"
        pod = pod_manifest(name, request, namespace=NAMESPACE, priority_class=priority)
        if is_low:
            pod["metadata"]["finalizers"] = [HELD]
            free = Change("Pod", name, {"metadata": {"finalizers": None}})
            done += [Timed(at_s, free) for at_s in (size.end_s * 0.6, size.end_s)]
        done.append(Timed(rng.uniform(0.0, 5.0) if is_low else rng.uniform(12.0, size.end_s * 0.5), Create(pod)))
    return sorted(done, key=lambda timed: timed.at_s)


def protected_later(rng: random.Random, name: str, at_s: float) -> Timed:
    """A pod comes to be protected while it runs, or waits."""
    label, value = rng.choice(PROTECTED)
    return Timed(at_s + rng.uniform(0.1, 30.0), Change("Pod", name, {"metadata": {"labels": {label: value}}}))


def replicas(name: str, count: int, request: PodRequest, labels: dict[str, str], priority_class: str) -> Json:
    """A ReplicaSet of ours."""
    pod = pod_manifest(name, request, namespace=NAMESPACE, labels=labels, priority_class=priority_class)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {SET_LABEL: name}},
            "template": {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]},
        },
    }


def budget(name: str, at_least: int) -> Json:
    """A PodDisruptionBudget of a ReplicaSet."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minAvailable": at_least, "selector": {"matchLabels": {SET_LABEL: name}}},
    }


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """A few nodes of four cards, and the priorities that pods may have."""
    return [*cards(rng, size), *(priority_class(name, value) for name, value in PRIORITIES.items())]


def crowded(rng: random.Random, size: Size) -> list[Timed]:
    """Sets and gangs that fill the nodes, and pods of any priority that come over and over and are deleted or stay."""
    done = [timed for number in range(size.sets) for timed in draw(rng, size, number)]
    done += [mirror(rng, size, number) for number in range(size.nodes)]
    for number in range(size.gangs):
        done += _members(f"gang-{number}", 3, REQUESTS[0], rng.uniform(0.0, 10.0), rng)
    for number in range(size.singles):
        at_s, name = rng.uniform(5.0, size.end_s), f"pod-{number}"
        pod = pod_manifest(name, rng.choice(REQUESTS), namespace=NAMESPACE)
        pod["spec"]["priorityClassName"] = rng.choice(sorted(PRIORITIES))
        done.append(Timed(at_s, Create(pod)))
        if rng.random() < 0.2:
            done.append(protected_later(rng, name, at_s))
        if rng.random() < 0.7:
            gone_s = at_s + rng.choice((0.3, 2.0, 15.0)) * rng.uniform(0.5, 2.0)
            done.append(Timed(gone_s, Delete("Pod", name, rng.choice((0, 30)))))
    return sorted(done, key=lambda timed: timed.at_s)
