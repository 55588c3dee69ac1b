"""ReplicaSets: as many pods as wanted. A pod that ends or is being deleted is replaced at once; excess pods go.

What an object that is gone had made goes with it, as the garbage collector does.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Iterable

from berth.simcluster.controllers.controller import changed, owned_by, owner_of, reference_to
from berth.simcluster.store.collection import Event
from berth.simcluster.store.deleting import Options, delete
from berth.simcluster.store.objects import Json, Obj, condition_status, decode, encode, section
from berth.simcluster.store.resource import PODS, REPLICA_SETS
from berth.simcluster.store.state import State
from berth.simcluster.store.writing import create

BURST = 500
"""How many pods are made or deleted at a time."""
KIND = "ReplicaSet"
_ENDED = ("Succeeded", "Failed")


class ReplicaSets:
    """See the module."""

    def __init__(self, delay_s: tuple[float, float]) -> None:
        """`delay_s`: how long it takes to react."""
        self.delay_s = delay_s

    def every(self, state: State) -> Iterable[str]:
        """All of them."""
        return list(state.of(REPLICA_SETS).items)

    def keys(self, state: State, event: Event) -> Iterable[str]:
        """The object itself, or the owner of a pod."""
        if event.resource is REPLICA_SETS:
            return (event.obj.key,)
        owner = owner_of(event.obj, KIND) if event.resource is PODS else None
        return (owner[0],) if owner is not None else ()

    def reconcile(self, state: State, key: str, random: random_module.Random) -> float | None:
        """Make or delete pods, then say how many there are."""
        pods, owner = state.of(PODS), state.of(REPLICA_SETS).items.get(key)
        owned: list[Obj] = []
        for pod, uid in owned_by(pods, key, KIND):
            if owner is not None and uid == owner.uid:
                owned.append(pod)
            elif "deletionTimestamp" not in pod.meta:
                delete(state, pods, pod, Options())
        if owner is None or "deletionTimestamp" in owner.meta:
            return None
        active = [pod for pod in owned if _is_active(pod)]
        missing = wanted_of(owner) - len(active)
        for _ in range(min(missing, BURST)):
            create(state, pods, owner.meta["namespace"], _pod(owner))
        for pod in sorted(active, key=_importance)[: min(-missing, BURST) if missing < 0 else 0]:
            delete(state, pods, pod, Options())
        if missing:
            return 0.0  # the numbers follow when the pods are there
        changed(state, REPLICA_SETS, owner, status=_status(active))
        return None


def wanted_of(owner: Obj) -> int:
    """How many pods a ReplicaSet or a Deployment wants."""
    return max(0, int(section(owner.data, "spec").get("replicas", 1)))


def _is_active(pod: Obj) -> bool:
    return section(pod.data, "status").get("phase") not in _ENDED and "deletionTimestamp" not in pod.meta


def _importance(pod: Obj) -> tuple[bool, bool, int]:
    """Which go first: those without a node, those that are not ready, the youngest."""
    return bool(pod.data["spec"].get("nodeName")), condition_status(pod.data, "Ready") == "True", -pod.version


def _pod(owner: Obj) -> Json:
    template = decode(encode(section(section(owner.data, "spec"), "template")))
    meta = section(template, "metadata")
    return {
        "metadata": {
            "generateName": f"{owner.meta['name']}-",
            "labels": section(meta, "labels"),
            "annotations": section(meta, "annotations"),
            "ownerReferences": [reference_to(owner)],
        },
        "spec": section(template, "spec"),
    }


def _status(active: list[Obj]) -> Json:
    ready = sum(condition_status(pod.data, "Ready") == "True" for pod in active)
    return {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active),
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
