"""Pods of one run that must be apart, together, or spread, and those who match their terms and have none themselves."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tests.simulation.workload import NAMESPACE, ZONE, ZONES, Change, Create, Delete, Json, Size, Timed

from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

HOSTNAME: Final = "kubernetes.io/hostname"
GROUP_LABEL: Final = "mates"
LEFT: Final = "left"
"""The group of a pod that was relabelled."""
REQUEST: Final = PodRequest(250, 256)
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _selector(group: str) -> Json:
    return {"labelSelector": {"matchLabels": {GROUP_LABEL: group}}}


def apart(key: str) -> Callable[[str], Json]:
    """Two of a group are never in one domain of this label."""
    return lambda group: {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": key, **_selector(group)}]}}}


def together(group: str) -> Json:
    """All of a group are in one zone."""
    return {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": ZONE, **_selector(group)}]}}}


def spread(group: str) -> Json:
    """No zone has more than one of a group more than another."""
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_selector(group)}
    return {"topologySpreadConstraints": [constraint]}


def nothing(group: str) -> Json:
    """A pod that others mean."""
    return {}


KINDS: Final = (apart(HOSTNAME), apart(ZONE), together, spread)
GUARDED: Final = 0.3
"""Of pods that match the terms of their group and have none themselves."""


def draw(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """One group: its pods come within some seconds or over a while; they end, are deleted, or are relabelled."""
    group, kind = f"mates-{number}", KINDS[number % len(KINDS)]
    begin_s, lasts_s = rng.uniform(0.0, size.end_s * 0.8), rng.choice((1.0, 60.0))
    done: list[Timed] = []
    for member in range(rng.choice((3, 5, 8))):
        name, at_s = f"{group}-{member}", min(size.end_s, begin_s + rng.uniform(0.0, lasts_s))
        terms = nothing if rng.random() < GUARDED else kind
        done.append(Timed(at_s, Create(_pod(name, group, terms, rng.choice((0.0, 0.0, 10.0, 40.0))))))
        fate = rng.random()
        if fate < 0.35:
            done.append(Timed(at_s + rng.uniform(0.5, 50.0), Delete("Pod", name, rng.choice((0, 30)))))
        elif fate < 0.5:
            done.append(Timed(at_s + rng.uniform(0.01, 30.0), _labelled(name, LEFT)))
            done.append(Timed(at_s + rng.uniform(30.0, 60.0), _labelled(name, group)))
    return done


def zones(rng: random.Random, size: Size) -> list[Timed]:
    """Now and then a node turns out to be in another zone, or in none for a while."""
    done: list[Timed] = []
    for number in rng.sample(range(size.nodes), min(size.nodes, rng.choice((0, 0, 1, 2)))):
        at_s = rng.uniform(5.0, size.end_s * 0.8)
        done.append(Timed(at_s, _in_zone(number, rng.choice((None, *ZONES)))))
        done.append(Timed(at_s + rng.uniform(5.0, 40.0), _in_zone(number, rng.choice(ZONES))))
    return done


def _pod(name: str, group: str, terms: Callable[[str], Json], lasts_s: float) -> Json:
    notes = {DURATION: f"{lasts_s:.1f}s"} if lasts_s else {}
    pod = pod_manifest(name, REQUEST, namespace=NAMESPACE, labels={GROUP_LABEL: group}, annotations=notes)
    pod["spec"] |= terms(group)
    return pod


def _labelled(name: str, group: str) -> Change:
    return Change("Pod", name, {"metadata": {"labels": {GROUP_LABEL: group}}})


def _in_zone(number: int, zone: str | None) -> Change:
    return Change("Node", f"node-{number}", {"metadata": {"labels": {ZONE: zone}}})
