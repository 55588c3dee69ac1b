"""What changes under those who wait and those who run: nodes, cards, quota groups."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.workload import (
    GROUPS,
    MODEL,
    Change,
    Create,
    Delete,
    Json,
    Scale,
    Size,
    Timed,
    node,
)

from berth.simcluster.generate.build import device_manifest
from berth.simcluster.kubelet import SILENT

UNREACHABLE: Final = "node.kubernetes.io/unreachable"


def nodes(rng: random.Random, size: Size) -> list[Timed]:
    """Nodes that die and come back with other devices, a card that breaks, a cordon, a node that is not heard of."""
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


def quotas(rng: random.Random, size: Size) -> list[Timed]:
    """Now and then a group may use less for a while, or more from then on, or is deleted for good.

    A limit that was lowered is back before the end: what was held when it sank stays, and is no one's mistake.
    """
    done: list[Timed] = []
    groups = rng.sample(GROUPS, len(GROUPS))
    for group in groups[: rng.choice((0, 0, 1, 2))]:
        at_s = rng.uniform(5.0, size.end_s * 0.7)
        back_s = min(size.end_s, at_s + rng.choice((2.0, 20.0, 40.0)) * rng.uniform(0.5, 1.5))
        share = rng.choice((0.3, 0.6, 2.0))
        done += [Timed(at_s, Scale(group, share)), Timed(back_s, Scale(group, max(1.0, share)))]
    if rng.random() < 0.1:
        done.append(Timed(rng.uniform(5.0, size.end_s), Delete("ElasticQuota", groups[-1], 0)))
    return done
