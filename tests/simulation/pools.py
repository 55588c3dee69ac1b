"""A pool of nodes with a tree of quotas of its own: a profile, a group below the root quota that is made for it, pods
of that group; nodes that join and leave the pool, and a profile that comes to select others."""

from __future__ import annotations

import json
import random
from typing import Final

from tests.simulation.workload import CARDS, NAMESPACE, QUOTA_LABEL, Change, Create, Delete, Json, Size, Timed

from berth.contracts import names
from berth.rules.quota_trees import made_tree
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

POOL: Final = "team/pool"
PROFILE: Final = "pool"
ROOT: Final = "pool-root"
GROUP: Final = "pooled"
KINDS: Final = ("x", "y")
PODS: Final = 24


def draw(rng: random.Random, size: Size) -> list[Timed]:
    """In half of the runs."""
    return [] if rng.random() < 0.5 else always(rng, size)


def always(rng: random.Random, size: Size) -> list[Timed]:
    """The profile and all that comes with it."""
    done = made(rng, size, rng.choice(("", "pool-tree")))
    for number in range(PODS):
        done += _pod(rng, size, number)
    if rng.random() < 0.3:
        at_s = rng.uniform(5.0, size.end_s * 0.7)
        done.append(Timed(at_s, Change("ElasticQuotaProfile", PROFILE, {"spec": _selects(KINDS[1])})))
    elif rng.random() < 0.2:
        done.append(Timed(rng.uniform(5.0, size.end_s * 0.7), Delete("ElasticQuotaProfile", PROFILE, 0)))
    return done


def made(rng: random.Random, size: Size, tree: str) -> list[Timed]:
    """The profile, a group of its tree, and nodes of which some change their pool."""
    done = [
        Timed(0.0, Create(_profile(tree, KINDS[0]))),
        Timed(0.0, Create(_group(tree or made_tree(NAMESPACE, PROFILE)))),
    ]
    for number in range(size.nodes):
        done += _labels(rng, size, f"node-{number}")
    return done


def _labels(rng: random.Random, size: Size, node: str) -> list[Timed]:
    """A node is of one kind, of the other, or of none; some change."""

    def is_of(kind: str | None) -> Change:
        return Change("Node", node, {"metadata": {"labels": {POOL: kind}}})

    done = [Timed(0.0, is_of(rng.choice((KINDS[0], KINDS[0], KINDS[1], None))))]
    while rng.random() < 0.4 and len(done) < 4:
        done.append(Timed(rng.uniform(1.0, size.end_s), is_of(rng.choice((*KINDS, None)))))
    return done


def _pod(rng: random.Random, size: Size, number: int) -> list[Timed]:
    at_s, notes = rng.uniform(0.0, size.end_s), {DURATION: f"{rng.uniform(5, 60):.1f}s"}
    request = PodRequest(rng.choice((500, 2_000)), 1_024, rng.choice((0, 0, 1)))
    labels = {QUOTA_LABEL: GROUP}
    return [
        Timed(
            at_s,
            Create(pod_manifest(f"pooled-{number}", request, namespace=NAMESPACE, labels=labels, annotations=notes)),
        )
    ]


def _selects(kind: str) -> Json:
    return {"nodeSelector": {"matchLabels": {POOL: kind}}}


def _profile(tree: str, kind: str) -> Json:
    return {
        "apiVersion": "quota.koordinator.sh/v1alpha1",
        "kind": "ElasticQuotaProfile",
        "metadata": {
            "name": PROFILE,
            "namespace": NAMESPACE,
            "labels": {names.LABEL_QUOTA_TREE: tree} if tree else {},
            "annotations": {names.ANNOTATION_QUOTA_RESOURCE_KEYS: json.dumps(["cpu", "memory", CARDS])},
        },
        "spec": {"quotaName": ROOT, "quotaLabels": {names.LABEL_QUOTA_IS_PARENT: "true"}, **_selects(kind)},
    }


def _group(tree: str) -> Json:
    most = {"cpu": "1k", "memory": "1Ti", CARDS: "100k"}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": GROUP,
            "namespace": NAMESPACE,
            "labels": {names.LABEL_QUOTA_TREE: tree, names.LABEL_QUOTA_PARENT: ROOT},
        },
        "spec": {"min": {}, "max": most},
    }
