"""Deployments: one ReplicaSet for the present template. A changed template replaces all pods at once: there is no
rolling update."""

from __future__ import annotations

import hashlib
import random as random_module
from collections.abc import Iterable

from berth.simcluster.controllers.controller import changed, owned_by, owner_of, reference_to
from berth.simcluster.controllers.replica_sets import wanted_of
from berth.simcluster.store.collection import Event
from berth.simcluster.store.deleting import Options, delete
from berth.simcluster.store.objects import Json, Obj, decode, encode, section
from berth.simcluster.store.resource import DEPLOYMENTS, REPLICA_SETS
from berth.simcluster.store.state import State
from berth.simcluster.store.writing import create

KIND = "Deployment"
HASH = "pod-template-hash"


class Deployments:
    """See the module."""

    def __init__(self, delay_s: tuple[float, float]) -> None:
        """`delay_s`: how long it takes to react."""
        self.delay_s = delay_s

    def every(self, state: State) -> Iterable[str]:
        """All of them."""
        return list(state.of(DEPLOYMENTS).items)

    def keys(self, state: State, event: Event) -> Iterable[str]:
        """The object itself, or the owner of a ReplicaSet."""
        if event.resource is DEPLOYMENTS:
            return (event.obj.key,)
        owner = owner_of(event.obj, KIND) if event.resource is REPLICA_SETS else None
        return (owner[0],) if owner is not None else ()

    def reconcile(self, state: State, key: str, random: random_module.Random) -> float | None:
        """Scale the ReplicaSet of the template, all others to nothing."""
        sets, owner = state.of(REPLICA_SETS), state.of(DEPLOYMENTS).items.get(key)
        owned: dict[str, Obj] = {}
        for each, uid in owned_by(sets, key, KIND):
            if owner is not None and uid == owner.uid:
                owned[each.key] = each
            else:
                delete(state, sets, each, Options())
        if owner is None or "deletionTimestamp" in owner.meta:
            return None
        wanted, made = wanted_of(owner), _replica_set(owner)
        current = f"{owner.meta['namespace']}/{made['metadata']['name']}"
        if current not in owned:
            create(state, sets, owner.meta["namespace"], made)
            return 0.0
        for each in owned.values():
            spec = section(each.data, "spec")
            changed(state, REPLICA_SETS, each, spec={**spec, "replicas": wanted if each.key == current else 0})
        status = section(owned[current].data, "status")
        ready = status.get("readyReplicas", 0)
        numbers = {"replicas": status.get("replicas", 0), "updatedReplicas": status.get("replicas", 0)}
        numbers |= {"readyReplicas": ready, "availableReplicas": ready}
        changed(state, DEPLOYMENTS, owner, status=numbers)
        return None


def _replica_set(owner: Obj) -> Json:
    spec = decode(encode(section(owner.data, "spec")))
    template = section(spec, "template")
    digest = hashlib.sha256(encode(template)).hexdigest()[:10]
    meta = section(template, "metadata")
    labels = {**section(meta, "labels"), HASH: digest}
    selector = section(spec, "selector")
    return {
        "metadata": {
            "name": f"{owner.meta['name']}-{digest}",
            "labels": labels,
            "ownerReferences": [reference_to(owner)],
        },
        "spec": {
            "replicas": spec.get("replicas", 1),
            "selector": {**selector, "matchLabels": {**section(selector, "matchLabels"), HASH: digest}},
            "template": {**template, "metadata": {**meta, "labels": labels}},
        },
    }
