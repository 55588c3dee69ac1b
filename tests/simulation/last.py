"""The last change: once all is quiet somebody frees capacity, and nothing else happens that could wake who waits for
it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tests.simulation.harness import Harness
from tests.simulation.settled.held import objects
from tests.simulation.workload import GROUPS, Action, Change, Create, Delete, Scale, node

from berth.contracts import names

MORE: Final = 3.0


def changes(rng: random.Random, harness: Harness) -> list[Action]:
    """A node that is uncordoned, or comes; a quota group that may use more; a pod that goes."""
    kinds: list[Callable[[random.Random, Harness], list[Action]]] = [_uncordoned, _come, _raised, _gone]
    found = [made for kind in kinds if (made := kind(rng, harness))]
    return rng.choice(found)


def _uncordoned(rng: random.Random, harness: Harness) -> list[Action]:
    cordoned = [name for name, each in objects(harness, "", "nodes").items() if each.data["spec"].get("unschedulable")]
    return [Change("Node", rng.choice(cordoned), {"spec": {"unschedulable": None}})] if cordoned else []


def _come(rng: random.Random, harness: Harness) -> list[Action]:
    return [Create(each) for each in node("node-last", rng.choice((2, 8)))]


def _raised(rng: random.Random, harness: Harness) -> list[Action]:
    return [Scale(rng.choice(GROUPS), MORE)]


def _gone(rng: random.Random, harness: Harness) -> list[Action]:
    bound = [
        each.meta["name"]
        for each in objects(harness, "", "pods").values()
        if each.data["spec"].get("nodeName") and each.data["spec"].get("schedulerName") == names.SCHEDULER_NAME
    ]
    return [Delete("Pod", rng.choice(bound), 0)] if bound else []
