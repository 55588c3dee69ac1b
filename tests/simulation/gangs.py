"""Gangs of one run: by PodGroup or by annotations, strict or not, alone or two that start together."""

from __future__ import annotations

import json
import random

from tests.simulation.workload import (
    GANG_LABEL,
    GROUPS,
    NAMESPACE,
    PRIORITIES,
    QUOTA_LABEL,
    Change,
    Create,
    Delete,
    Json,
    Size,
    Timed,
)

from berth.contracts import names
from berth.simcluster.generate.build import PodRequest, pod_manifest

TOGETHER_SHARE = 0.15
LOOSE_SHARE = 0.15
SPARE_SHARE = 0.25
"""Of gangs that are content with fewer members than come."""
CHANGED_SHARE = 0.15
"""Of PodGroups whose minimum is changed while their members are there."""


def draw(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """One gang, or two that start together; large gangs ask for little."""
    at_s, name = rng.uniform(0.0, size.end_s), f"gang-{number}"
    mode = {names.ANNOTATION_GANG_MODE: "NonStrict"} if rng.random() < LOOSE_SHARE else {}
    rank = rng.choice(sorted(PRIORITIES)) if size.ranked_gangs and rng.random() < size.ranked_gangs else ""
    if rng.random() < TOGETHER_SHARE:
        pair = (name, f"{name}-mate")
        group = json.dumps([f"{NAMESPACE}/{each}" for each in pair])
        notes = {**mode, names.ANNOTATION_GANG_GROUPS: group}
        return [timed for each in pair for timed in _gang(rng, each, rng.choice((1, 2, 3)), at_s, notes, rank)]
    return _gang(rng, name, rng.choice((2, 2, 3, 4, 4, 8, 16, 64)), at_s, mode, rank)


def _gang(rng: random.Random, name: str, members: int, at_s: float, settings: dict[str, str], rank: str) -> list[Timed]:
    """Members come within some seconds; they, or their PodGroup alone, may be deleted later."""
    request = PodRequest(500, 256) if members > 8 else PodRequest(1_000, 1_024, 1, rng.choice((300, 500, 1_000)))
    minimum = max(1, members - rng.choice((1, 2))) if rng.random() < SPARE_SHARE else members
    labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    done: list[Timed] = []
    if rng.random() < 0.5:
        labels[GANG_LABEL] = name
        done += _pod_group(rng, name, minimum, at_s, settings)
    else:
        notes = {**settings, names.ANNOTATION_GANG_NAME: name, names.ANNOTATION_GANG_MIN: str(minimum)}
    if rng.random() < 0.3:
        labels[QUOTA_LABEL] = rng.choice(GROUPS)
    for member in range(members):
        pod = pod_manifest(f"{name}-{member}", request, namespace=NAMESPACE, labels=labels, annotations=notes)
        if rank:
            pod["spec"]["priorityClassName"] = rank
        done.append(Timed(at_s + rng.uniform(0.0, 2.0), Create(pod)))
    if rng.random() < 0.5:
        gone_s = at_s + rng.uniform(1.0, 60.0)
        done += [
            Timed(gone_s + rng.uniform(0.0, 1.0), Delete("Pod", f"{name}-{member}", 0)) for member in range(members)
        ]
    return done


def _pod_group(rng: random.Random, name: str, minimum: int, at_s: float, settings: dict[str, str]) -> list[Timed]:
    """It may be deleted while its members are there, and made again; it may come to ask for more or for fewer."""
    group: Json = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": settings},
        "spec": {"minMember": minimum, "scheduleTimeoutSeconds": 600},
    }
    done = [Timed(max(0.0, at_s + rng.uniform(-0.5, 0.5)), Create(group))]
    if rng.random() < 0.15:
        gone_s = at_s + rng.choice((0.5, 2.0, 20.0)) * rng.uniform(0.5, 1.5)
        done.append(Timed(gone_s, Delete("PodGroup", name, 0)))
        if rng.random() < 0.5:
            done.append(Timed(gone_s + rng.choice((0.05, 5.0)), Create(group)))
    elif rng.random() < CHANGED_SHARE:
        changed_s = at_s + rng.choice((0.2, 2.0, 20.0)) * rng.uniform(0.5, 1.5)
        asked = max(1, minimum + rng.choice((-1, 1)))
        done.append(Timed(changed_s, Change("PodGroup", name, {"spec": {"minMember": asked}})))
    return done
