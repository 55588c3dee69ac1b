"""What changes under those who wait and those who run: nodes, cards, quota groups."""

from __future__ import annotations

import json
import random
from typing import Final

from tests.simulation.workload import (
    ABOVE,
    APART,
    CARDS,
    GROUPS,
    MODEL,
    NAMESPACE,
    PARENT,
    Change,
    Create,
    Delete,
    Json,
    Scale,
    Size,
    Timed,
    node,
)

from berth.contracts.names import ANNOTATION_QUOTA_NAMESPACES, LABEL_QUOTA_PARENT
from berth.simcluster.generate.build import device_manifest
from berth.simcluster.kubelet import SILENT

DRAINED: Final = {"key": "team/drained", "effect": "NoExecute"}
STAYS_LOWERED: Final = 0.3
UNREACHABLE: Final = "node.kubernetes.io/unreachable"


def nodes(rng: random.Random, size: Size) -> list[Timed]:
    """Nodes that die and come back, a card that breaks, a cordon, a node that is not heard of, one that is drained."""
    done: list[Timed] = []
    for number in range(size.nodes):
        name, kind = f"node-{number}", rng.random()
        at_s = rng.uniform(5.0, size.end_s)
        back_s = at_s + rng.choice((0.05, 2.0, 20.0, 40.0)) * rng.uniform(0.5, 1.5)
        if kind < 0.12:
            done += [Timed(at_s, Delete("Device", name, 0)), Timed(at_s, Delete("Node", name, 0))]
            done += [Timed(back_s, Create(each)) for each in node(name, rng.choice((1, 2, 4)), number)]
        elif kind < 0.26:
            devices = device_manifest(name, MODEL, rng.choice((1, 2, 4, 8)))["spec"]["devices"]
            for device in devices:
                device["health"] = rng.random() < 0.7
            done.append(Timed(at_s, Change("Device", name, {"spec": {"devices": devices}})))
        elif kind < 0.4:
            done.append(Timed(at_s, Change("Node", name, {"spec": {"unschedulable": True}})))
            done.append(Timed(back_s, Change("Node", name, {"spec": {"unschedulable": None}})))
        elif kind < 0.52:
            done += _unreachable(name, at_s, back_s)
        elif kind < 0.58:
            done.append(Timed(at_s, Change("Node", name, {"spec": {"taints": [DRAINED]}})))
        elif kind < 0.66:
            done.append(Timed(at_s, Change("Node", name, {"spec": {"unschedulable": True}})))
    return done


def _unreachable(name: str, at_s: float, back_s: float) -> list[Timed]:
    """Its kubelet is not heard of: the node's pods do not start and do not end; some later it is back."""
    taints = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]

    def ready(status: str) -> Json:
        return {"status": {"conditions": [{"type": "Ready", "status": status, "reason": "NodeStatus"}]}}

    return [
        Timed(at_s, Change("Node", name, {"metadata": {"annotations": {SILENT: "true"}}})),
        Timed(at_s, Change("Node", name, ready("Unknown"), "status")),
        Timed(at_s, Change("Node", name, {"spec": {"taints": taints}})),
        Timed(back_s, Change("Node", name, {"metadata": {"annotations": {SILENT: None}}})),
        Timed(back_s, Change("Node", name, ready("True"), "status")),
        Timed(back_s, Change("Node", name, {"spec": {"taints": None}})),
    ]


def serving(rng: random.Random, size: Size) -> list[Timed]:
    """Now and then a group pays for all pods of the namespace that name none, for a while."""
    if rng.random() < 0.6:
        return []
    group, at_s = rng.choice(GROUPS), rng.uniform(0.0, size.end_s * 0.7)

    def serves(text: str | None) -> Change:
        return Change("ElasticQuota", group, {"metadata": {"annotations": {ANNOTATION_QUOTA_NAMESPACES: text}}})

    gone_s = at_s + rng.choice((20.0, 60.0)) * rng.uniform(0.5, 1.5)
    return [Timed(at_s, serves(json.dumps([NAMESPACE]))), Timed(gone_s, serves(None))]


def quotas(rng: random.Random, size: Size) -> list[Timed]:
    """Now and then a group may use less, mostly for a while, or more from then on; one moves, or is deleted for good;
    one that limited nothing comes to have a max. What is held when a limit sinks or comes stays."""
    done: list[Timed] = []
    groups = rng.sample(GROUPS, len(GROUPS))
    for group in groups[: rng.choice((0, 0, 1, 2))]:
        at_s = rng.uniform(5.0, size.end_s * 0.7)
        back_s = min(size.end_s, at_s + rng.choice((2.0, 20.0, 40.0)) * rng.uniform(0.5, 1.5))
        share = rng.choice((0.3, 0.6, 2.0))
        done.append(Timed(at_s, Scale(group, share)))
        if rng.random() < STAYS_LOWERED:
            continue
        done.append(Timed(back_s, Scale(group, max(1.0, share))))
    if rng.random() < 0.3:
        done += _max_appears(rng, size)
    if rng.random() < 0.3:
        done += _moves(rng, size, groups[0])
    if rng.random() < 0.1:
        done.append(Timed(rng.uniform(5.0, size.end_s), Delete("ElasticQuota", groups[-1], 0)))
    return done


def _max_appears(rng: random.Random, size: Size) -> list[Timed]:
    """Those above others say nothing of cards for a while, and then have their max again, all that there are."""
    at_s = rng.uniform(5.0, size.end_s * 0.5)
    back_s = at_s + rng.uniform(5.0, 40.0)
    done: list[Timed] = []
    for group in (PARENT, ABOVE):
        free = Change("ElasticQuota", group, {"spec": {"max": {CARDS: None}}})
        done += [Timed(at_s, Scale(group, 1.0)), Timed(at_s + 0.1, free), Timed(back_s, Scale(group, 1.0))]
    return done


def _moves(rng: random.Random, size: Size, group: str) -> list[Timed]:
    """A group comes below another parent, with whatever runs in it, and may return."""

    def below(parent: str) -> Change:
        return Change("ElasticQuota", group, {"metadata": {"labels": {LABEL_QUOTA_PARENT: parent}}})

    at_s = rng.uniform(5.0, size.end_s * 0.7)
    back = [Timed(at_s + rng.uniform(5.0, 60.0), below(PARENT))] if rng.random() < 0.5 else []
    return [Timed(at_s, below(APART)), *back]
