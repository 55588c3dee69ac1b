"""Pods of one run that must be apart, together, or spread, and those who match their terms and have none themselves."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from tests.simulation.workload import NAMESPACE, ZONE, ZONES, Change, Create, Delete, Json, Size, Timed

from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

HOSTNAME: Final = "kubernetes.io/hostname"
GROUP_LABEL: Final = "mates"
LEFT: Final = "left"
"""The group of a pod that was relabelled."""
REQUESTS: Final = (PodRequest(250, 256), PodRequest(250, 256), PodRequest(3_000, 1_024))
HELD: Final = "team/held"
"""A finalizer: the pod is terminating for as long as it is there."""
Terms = Callable[[str], Json]
"""What the pods of a group say, by its name."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _selector(group: str) -> Json:
    return {"labelSelector": {"matchLabels": {GROUP_LABEL: group}}}


def apart(key: str) -> Terms:
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


def draw(
    rng: random.Random, size: Size, number: int, kinds: Sequence[Terms] = KINDS, lasts: Sequence[float] = (1.0, 60.0)
) -> list[Timed]:
    """One group: its pods come within some seconds or over a while."""
    group, kind = f"mates-{number}", kinds[number % len(kinds)]
    begin_s, lasts_s = rng.uniform(0.0, size.end_s * 0.8), rng.choice(lasts)
    done: list[Timed] = []
    for member in range(rng.choice((3, 5, 8))):
        at_s = min(size.end_s, begin_s + rng.uniform(0.0, lasts_s))
        done += _member(rng, size, at_s, f"{group}-{member}", group, nothing if rng.random() < GUARDED else kind)
    return done


def _member(rng: random.Random, size: Size, at_s: float, name: str, group: str, terms: Terms) -> list[Timed]:
    """A pod that ends, is deleted, some terminating for long, or leaves its group or joins it while it runs."""
    duration_s = rng.choice((0.0, 0.0, 10.0, 40.0))
    notes = {DURATION: f"{duration_s:.1f}s"} if duration_s else {}
    labels = {GROUP_LABEL: group}
    pod = pod_manifest(name, rng.choice(REQUESTS), namespace=NAMESPACE, labels=labels, annotations=notes)
    pod["spec"] |= terms(group)
    done, fate = [Timed(at_s, Create(pod))], rng.random()
    if fate < 0.35:
        gone_s = at_s + rng.uniform(0.5, 50.0)
        done.append(Timed(gone_s, Delete("Pod", name, rng.choice((0, 30)))))
        if fate < 0.22:
            pod["metadata"]["finalizers"] = [HELD]
            freed = Change("Pod", name, {"metadata": {"finalizers": None}})
            done.append(Timed(min(size.end_s, gone_s) + rng.uniform(5.0, 30.0), freed))
    elif fate < 0.45:
        done.append(Timed(at_s + rng.uniform(0.01, 30.0), _labelled(name, LEFT)))
        done.append(Timed(at_s + rng.uniform(30.0, 60.0), _labelled(name, group)))
    elif fate < 0.55:
        pod["metadata"]["labels"] = {GROUP_LABEL: LEFT}
        done.append(Timed(at_s + rng.uniform(0.01, 30.0), _labelled(name, group)))
    return done


def alone(rng: random.Random, size: Size) -> list[Timed]:
    """Nothing but such groups, and nodes that change their zones."""
    groups = [timed for number in range(size.mates) for timed in draw(rng, size, number)]
    return sorted([*groups, *zones(rng, size)], key=lambda timed: timed.at_s)


def leaving(rng: random.Random, size: Size) -> list[Timed]:
    """Groups that are spread over zones and come and go over a while."""
    groups = (draw(rng, size, number, (spread,), (20.0, 60.0)) for number in range(size.mates))
    return sorted((timed for group in groups for timed in group), key=lambda timed: timed.at_s)


def at_once(rng: random.Random, size: Size) -> list[Timed]:
    """Groups that are spread or apart over zones and come all at once, with as little between two pods as a view may
    be late."""
    groups = (draw(rng, size, number, (apart(ZONE), spread), (0.02, 1.0)) for number in range(size.mates))
    return sorted((timed for group in groups for timed in group), key=lambda timed: timed.at_s)


def zones(rng: random.Random, size: Size) -> list[Timed]:
    """Now and then a node turns out to be in another zone, or in none for a while."""
    done: list[Timed] = []
    for number in rng.sample(range(size.nodes), min(size.nodes, rng.choice((0, 0, 1, 2)))):
        at_s = rng.uniform(5.0, size.end_s * 0.8)
        done.append(Timed(at_s, _in_zone(number, rng.choice((None, *ZONES)))))
        done.append(Timed(at_s + rng.uniform(5.0, 40.0), _in_zone(number, rng.choice(ZONES))))
    return done


def _labelled(name: str, group: str) -> Change:
    return Change("Pod", name, {"metadata": {"labels": {GROUP_LABEL: group}}})


def _in_zone(number: int, zone: str | None) -> Change:
    return Change("Node", f"node-{number}", {"metadata": {"labels": {ZONE: zone}}})
