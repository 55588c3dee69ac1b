"""Quota groups of which one lends what it has to others, and comes back for it: with single pods and with gangs, while
borrowers run as sets and as strict gangs. Groups come to have less, so that they are above their runtime with nobody
waiting."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Final

from tests.simulation.owned import SET_LABEL, budget, replicas
from tests.simulation.workload import (
    CPU_MILLI,
    MEMORY_MIB,
    NAMESPACE,
    PRIORITIES,
    PROTECTED,
    QUOTA_LABEL,
    Create,
    Delete,
    Json,
    Scale,
    Size,
    Timed,
    node,
    part_of,
    priority_class,
)

from berth.contracts import names
from berth.simcluster.generate.build import PodRequest, pod_manifest

CONFIGURATION: Final = str(Path(__file__).with_name("monitored.yaml"))
OWNER: Final = "owner"
PARTNER: Final = "partner"
"""It pays for some members of the owner's gangs."""
BORROWERS: Final = ("borrower", "another")
LEAST: Final = {OWNER: 0.5, PARTNER: 0.15, "borrower": 0.15, "another": 0.1}
"""Which part of the cluster each group is promised; each may use all of it."""
FILLED_S: Final = 4.0
COMES_S: Final = 12.0
REQUESTS: Final = (PodRequest(2_000, 1_024), PodRequest(4_000, 2_048))


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """A few nodes, the priorities that pods may have, and the groups."""
    made: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    made += [priority_class(name, value) for name, value in PRIORITIES.items()]
    total = {"cpu": f"{size.nodes * CPU_MILLI}m", "memory": f"{size.nodes * MEMORY_MIB}Mi"}
    made += [_group(name, part_of(total, least), total) for name, least in LEAST.items()]
    for number in range(size.nodes):
        made += node(f"node-{number}", 2, number)
    return made


def actions(rng: random.Random, size: Size) -> list[Timed]:
    """Borrowers fill the nodes; then the owner comes, again and again, and what it has made goes after a while."""
    done: list[Timed] = []
    for number in range(size.sets):
        done += _lent(rng, number)
    for number in range(size.gangs):
        done += _gang(rng, f"lent-{number}", rng.choice(BORROWERS), rng.choice((2, 3)), rng.uniform(0.0, FILLED_S), "")
    for number in range(size.singles):
        at_s = COMES_S + (size.end_s - 2 * COMES_S) * number / size.singles + rng.uniform(0.0, 2.0)
        gone_s = at_s + rng.choice((8.0, 30.0)) * rng.uniform(0.5, 1.5)
        rank = rng.choice(("", "low", "high"))
        if number % 3:
            done.append(Timed(at_s, Create(_pod(f"own-{number}", rng.choice(REQUESTS), OWNER, rank))))
            done.append(Timed(gone_s, Delete("Pod", f"own-{number}", rng.choice((0, 30)))))
            continue
        members = rng.choice((2, 2, 4))
        done += _gang(rng, f"own-{number}", OWNER, members, at_s, rank, PARTNER if rng.random() < 0.4 else OWNER)
        done += [Timed(gone_s, Delete("Pod", f"own-{number}-{member}", 0)) for member in range(members)]
    for group in BORROWERS:
        at_s = rng.uniform(COMES_S, size.end_s * 0.6)
        done.append(Timed(at_s, Scale(group, rng.choice((0.2, 0.4)))))
        done.append(Timed(at_s + rng.uniform(15.0, 30.0), Scale(group, 1.0)))
    return sorted(done, key=lambda timed: timed.at_s)


def _lent(rng: random.Random, number: int) -> list[Timed]:
    """A ReplicaSet of a borrower; some have a budget, some may not be evicted."""
    name, at_s = f"set-{number}", rng.uniform(0.0, FILLED_S)
    labels = {SET_LABEL: name, QUOTA_LABEL: rng.choice(BORROWERS)}
    if rng.random() < 0.1:
        labels |= dict([rng.choice(PROTECTED)])
    made = replicas(name, 4, rng.choice(REQUESTS), labels, rng.choice(("low", "high", "")))
    done = [Timed(at_s, Create(made))]
    if rng.random() < 0.3:
        done.append(Timed(at_s, Create(budget(name, rng.choice((1, 3, 4))))))
    return done


def _pod(name: str, request: PodRequest, group: str, rank: str) -> Json:
    return pod_manifest(name, request, namespace=NAMESPACE, labels={QUOTA_LABEL: group}, priority_class=rank)


def _gang(
    rng: random.Random, name: str, group: str, members: int, at_s: float, rank: str, partner: str = ""
) -> list[Timed]:
    """A strict gang; some can spare a member. For the first member the partner pays, if there is one."""
    least = members - (members > 2 and rng.random() < 0.3)
    notes = {names.ANNOTATION_GANG_NAME: name, names.ANNOTATION_GANG_MIN: str(least)}
    made = [
        _pod(f"{name}-{member}", REQUESTS[0], partner if partner and not member else group, rank)
        for member in range(members)
    ]
    for pod in made:
        pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **notes}
    return [Timed(at_s + rng.uniform(0.0, 1.0), Create(pod)) for pod in made]


def _group(name: str, least: dict[str, str], most: dict[str, str]) -> Json:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {names.LABEL_QUOTA_IS_PARENT: json.dumps(False)},
        },
        "spec": {"min": least, "max": most},
    }
