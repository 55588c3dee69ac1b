"""Gangs in the network of one run: layers that change, nodes whose labels change, gangs that must lie in one domain."""

from __future__ import annotations

import json
import random
from typing import Final

from tests.simulation.owned import SET_LABEL, replicas
from tests.simulation.workload import (
    BLOCK,
    GANG_LABEL,
    NAMESPACE,
    SPINE,
    Change,
    Create,
    Delete,
    Json,
    Size,
    Timed,
    place,
)

from berth.contracts import names
from berth.simcluster.generate.build import PodRequest, pod_manifest

GANGS: Final = 3
KIND: Final = "ClusterNetworkTopology"
LAYERS: Final = ("SpineLayer", "BlockLayer", "NodeTopologyLayer")


def topology(*, without_blocks: bool = False) -> Json:
    """The layers, with or without that of the blocks."""
    block: Json = {"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": [BLOCK]}
    node = {"topologyLayer": LAYERS[2], "parentTopologyLayer": "SpineLayer" if without_blocks else "BlockLayer"}
    spine = {"topologyLayer": "SpineLayer", "labelKey": [SPINE]}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": KIND,
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": [spine, *([] if without_blocks else [block]), node]},
    }


def draw(rng: random.Random, size: Size) -> list[Timed]:
    """In every other run what `crowd` does."""
    return crowd(rng, size) if rng.random() < 0.5 else []


def displacing(rng: random.Random, size: Size) -> list[Timed]:
    """Sets of low pods that fill the nodes, and gangs of high priority that must lie in one domain."""
    done = crowd(rng, size, rank="high", gangs=size.gangs)
    for number in range(size.sets):
        made = replicas(f"set-{number}", 4, PodRequest(2_000, 2_048), {SET_LABEL: f"set-{number}"}, "low")
        done.append(Timed(rng.uniform(0.0, 3.0), Create(made)))
    return sorted(done, key=lambda timed: timed.at_s)


def crowd(rng: random.Random, size: Size, rank: str = "", gangs: int = GANGS) -> list[Timed]:
    """Some gangs, nodes that move to another block for a while or for good, layers that change now and then."""
    done: list[Timed] = [Timed(0.0, Create(topology()))]
    for number in range(gangs):
        done += _gang(rng, size, f"lies-{number}", rank)
    for number in range(size.nodes):
        if rng.random() < 0.25:
            at_s = rng.uniform(0.0, size.end_s)
            done.append(Timed(at_s, _moved(number, place(rng.randrange(size.nodes)))))
            if rng.random() < 0.5:
                done.append(Timed(at_s + rng.uniform(0.1, 30.0), _moved(number, place(number))))
    if rng.random() < 0.4:
        at_s = rng.uniform(5.0, size.end_s * 0.7)
        back_s = at_s + rng.choice((0.5, 20.0)) * rng.uniform(0.5, 1.5)
        for moment_s, without_blocks in ((at_s, True), (back_s, False)):
            spec = topology(without_blocks=without_blocks)["spec"]
            done.append(Timed(moment_s, Change(KIND, "default", {"spec": spec})))
    return sorted(done, key=lambda timed: timed.at_s)


def _moved(number: int, labels: dict[str, str]) -> Change:
    return Change("Node", f"node-{number}", {"metadata": {"labels": labels}})


def _gang(rng: random.Random, size: Size, name: str, rank: str) -> list[Timed]:
    """By PodGroup or by annotations; it must lie in a spine, in a block, or on one node, sometimes in pairs."""
    rule: Json = {"layer": rng.choice(LAYERS), "strategy": "MustGather"}
    rules = [rule, {"layer": LAYERS[2], "strategy": "PreferGather", "podCountMultiple": 2}]
    is_paired = rule["layer"] != LAYERS[2] and rng.random() < 0.3
    asked = json.dumps({"gatherStrategy": rules if is_paired else rules[:1]})
    members = rng.choice((2, 4)) if is_paired else rng.choice((2, 3, 4))
    at_s = rng.uniform(0.0, size.end_s)
    settings = {names.ANNOTATION_GANG_TOPOLOGY: asked}
    pod_labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    done: list[Timed] = []
    if rng.random() < 0.5:
        pod_labels = {GANG_LABEL: name}
        group = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": settings},
            "spec": {"minMember": members},
        }
        done.append(Timed(at_s, Create(group)))
    else:
        notes = {**settings, names.ANNOTATION_GANG_NAME: name, names.ANNOTATION_GANG_MIN: str(members)}
    request = rng.choice((PodRequest(2_000, 2_048), PodRequest(1_000, 1_024, 1)))
    for member in range(members):
        ranked = {**notes, names.ANNOTATION_GANG_TOPOLOGY_INDEX: str(member)}
        pod = pod_manifest(f"{name}-{member}", request, namespace=NAMESPACE, labels=pod_labels, annotations=ranked)
        if rank:
            pod["spec"]["priorityClassName"] = rank
        done.append(Timed(at_s + rng.uniform(0.0, 2.0), Create(pod)))
    if rank and rng.random() < 0.3:
        done = _with_mate(rng, done, name, at_s, rank)
    if rng.random() < 0.5:
        gone_s = at_s + rng.uniform(5.0, 60.0)
        done += [Timed(gone_s, Delete("Pod", f"{name}-{member}", 0)) for member in range(members)]
    elif rng.random() < 0.5:
        lost_s = at_s + rng.uniform(5.0, 40.0)
        again = pod_manifest(f"{name}-0", request, namespace=NAMESPACE, labels=pod_labels, annotations=notes)
        done += [Timed(lost_s, Delete("Pod", f"{name}-0", 0)), Timed(lost_s + rng.uniform(0.1, 3.0), Create(again))]
    return done


def _with_mate(rng: random.Random, gang: list[Timed], name: str, at_s: float, rank: str) -> list[Timed]:
    """The gang starts together with one of a member or two that may lie anywhere."""
    mate, members = f"{name}-mate", rng.choice((1, 2))
    together = {names.ANNOTATION_GANG_GROUPS: json.dumps([f"{NAMESPACE}/{each}" for each in (name, mate)])}
    for timed in gang:
        if isinstance(timed.action, Create):
            timed.action.manifest["metadata"].setdefault("annotations", {}).update(together)
    notes = {**together, names.ANNOTATION_GANG_NAME: mate, names.ANNOTATION_GANG_MIN: str(members)}
    done = list(gang)
    for member in range(members):
        pod = pod_manifest(f"{mate}-{member}", PodRequest(2_000, 2_048), namespace=NAMESPACE, annotations=notes)
        pod["spec"]["priorityClassName"] = rank
        done.append(Timed(at_s + rng.uniform(0.0, 2.0), Create(pod)))
        done.append(Timed(at_s + rng.uniform(30.0, 70.0), Delete("Pod", f"{mate}-{member}", 0)))
    return done
