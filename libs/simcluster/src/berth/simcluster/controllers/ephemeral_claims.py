"""Claims of ephemeral volumes: made for their pod, called after pod and volume, gone with the pod."""

from __future__ import annotations

import random as random_module
from collections.abc import Iterable, Iterator

from berth.simcluster.controllers.controller import owned_by, reference_to
from berth.simcluster.store.collection import Event
from berth.simcluster.store.deleting import Options, delete
from berth.simcluster.store.objects import Json, Obj, decode, encode, section
from berth.simcluster.store.resource import CLAIMS, PODS
from berth.simcluster.store.state import State
from berth.simcluster.store.writing import create

KIND = "Pod"


class EphemeralClaims:
    """See the module."""

    def __init__(self, delay_s: tuple[float, float]) -> None:
        """`delay_s`: how long it takes to react."""
        self.delay_s = delay_s

    def every(self, state: State) -> Iterable[str]:
        """All pods that have such volumes."""
        return [pod.key for pod in state.of(PODS).items.values() if _has_any(pod)]

    def keys(self, state: State, event: Event) -> Iterable[str]:
        """A pod that has such volumes."""
        return (event.obj.key,) if event.resource is PODS and _has_any(event.obj) else ()

    def reconcile(self, state: State, key: str, random: random_module.Random) -> float | None:
        """Make what is missing; delete what belongs to no pod any more."""
        claims, pod = state.of(CLAIMS), state.of(PODS).items.get(key)
        for claim, uid in owned_by(claims, key, KIND):
            if pod is None or uid != pod.uid:
                delete(state, claims, claim, Options())
        if pod is None or "deletionTimestamp" in pod.meta:
            return None
        namespace = pod.meta["namespace"]
        for name, template in _templates(pod):
            if f"{namespace}/{name}" not in claims.items:
                create(state, claims, namespace, _claim(pod, name, template))
        return None


def _has_any(pod: Obj) -> bool:
    return any(volume.get("ephemeral") for volume in pod.data["spec"].get("volumes") or ())


def _templates(pod: Obj) -> Iterator[tuple[str, Json]]:
    for volume in pod.data["spec"].get("volumes") or ():
        template = section(section(volume, "ephemeral"), "volumeClaimTemplate")
        if template:
            yield f"{pod.meta['name']}-{volume.get('name')}", template


def _claim(pod: Obj, name: str, template: Json) -> Json:
    copy = decode(encode(template))
    meta = section(copy, "metadata")
    return {
        "metadata": {
            "name": name,
            "labels": section(meta, "labels"),
            "annotations": section(meta, "annotations"),
            "ownerReferences": [reference_to(pod)],
        },
        "spec": section(copy, "spec"),
    }
