"""Quota groups that share by runtime, and one that wanders between parents and trees with all that runs in it.

Two parents of the default tree, of which one has a limit of cards that goes and comes again, and a pool of nodes with a
tree of its own, whose nodes change. Groups ask for more than there is, so that runtimes bind, and move with demand.
"""

from __future__ import annotations

import random
from typing import Final

from tests.simulation import pools
from tests.simulation.workload import CARDS, NAMESPACE, QUOTA_LABEL, Change, Create, Json, Size, Timed, _quota, node

from berth.contracts.names import LABEL_QUOTA_PARENT, LABEL_QUOTA_TREE
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

TREE: Final = "pool-tree"
NORTH: Final = "north"
SOUTH: Final = "south"
NOMAD: Final = "nomad"
CAMP: Final = "nomad-camp"
"""Below the one that wanders; it says nothing of a tree, so it comes along."""
STAYING: Final = {"north-a": NORTH, "north-b": NORTH, "south-a": SOUTH, "south-b": SOUTH}
PAYING: Final = (*STAYING, CAMP, CAMP, NOMAD, pools.GROUP)
OF_A_NODE: Final = 400
HOMES: Final = (NORTH, SOUTH, pools.ROOT)
OVERHEAD: Final = {"cpu": "250m", "memory": "64Mi"}


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """What is there at the beginning; the pool's root quota Berth makes itself."""
    total = size.nodes * OF_A_NODE
    made: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    made += [_above(NORTH, _amounts(total // 3)), _above(SOUTH, _amounts(total))]
    for name, parent in STAYING.items():
        made.append(
            _quota(name, parent, {CARDS: str(rng.choice((0, 100, 200)))}, _amounts(total // rng.choice((2, 4))))
        )
    made += [_above(NOMAD, _amounts(total // 2), NORTH), _quota(CAMP, NOMAD, {}, _amounts(total // 2))]
    for number in range(size.nodes):
        made += node(f"node-{number}", OF_A_NODE // 100, number)
    return made


def crowd(rng: random.Random, size: Size) -> list[Timed]:
    """Pods of all groups, a group that wanders, a limit that goes and comes, a pool whose nodes change."""
    done = pools.made(rng, size, TREE)
    for number in range(size.singles):
        done.append(Timed(rng.uniform(2.0, size.end_s), Create(_pod(rng, number))))
    at_s = rng.uniform(8.0, 16.0)
    while at_s < size.end_s:
        done.append(Timed(at_s, _moves(rng.choice(HOMES))))
        at_s += rng.uniform(6.0, 22.0)
    for at_s in (rng.uniform(6.0, 20.0), rng.uniform(34.0, 46.0)):
        done.append(Timed(at_s, _may_use(NORTH, None)))
        done.append(Timed(at_s + rng.uniform(3.0, 12.0), _may_use(NORTH, rng.choice((200, 400, 800)))))
    return sorted(done, key=lambda timed: timed.at_s)


def _pod(rng: random.Random, number: int) -> Json:
    notes = {DURATION: f"{rng.uniform(4, 30):.1f}s"}
    labels = {QUOTA_LABEL: rng.choice(PAYING)} if rng.random() < 0.9 else {}
    made = pod_manifest(f"pod-{number}", PodRequest(500, 512, 1), namespace=NAMESPACE, labels=labels, annotations=notes)
    if rng.random() < 0.5:
        made["spec"]["overhead"] = dict(OVERHEAD)
    return made


def _moves(home: str) -> Change:
    tree = TREE if home == pools.ROOT else None
    return Change("ElasticQuota", NOMAD, {"metadata": {"labels": {LABEL_QUOTA_PARENT: home, LABEL_QUOTA_TREE: tree}}})


def _may_use(group: str, cards: int | None) -> Change:
    return Change("ElasticQuota", group, {"spec": {"max": {CARDS: None if cards is None else str(cards)}}})


def _above(name: str, most: dict[str, str], parent: str = "") -> Json:
    made = _quota(name, parent, {}, most)
    made["metadata"]["labels"]["quota.scheduling.koordinator.sh/is-parent"] = "true"
    return made


def _amounts(cards: int) -> dict[str, str]:
    return {"cpu": "200", "memory": "800Gi", CARDS: str(cards)}
