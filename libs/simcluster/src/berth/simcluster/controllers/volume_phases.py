"""The phase of a volume: Available while it is nobody's, Released when its claim is gone; then it is kept, or deleted
where its policy says so."""

from __future__ import annotations

import random as random_module
from collections.abc import Iterable

from berth.simcluster.controllers.controller import changed
from berth.simcluster.store.collection import DELETED, Event
from berth.simcluster.store.deleting import Options, delete
from berth.simcluster.store.objects import section
from berth.simcluster.store.resource import CLAIMS, VOLUMES
from berth.simcluster.store.state import State


class VolumePhases:
    """See the module."""

    def __init__(self, delay_s: tuple[float, float]) -> None:
        """`delay_s`: how long it takes to react."""
        self.delay_s = delay_s

    def every(self, state: State) -> Iterable[str]:
        """All volumes."""
        return list(state.of(VOLUMES).items)

    def keys(self, state: State, event: Event) -> Iterable[str]:
        """The volume itself, or that of a claim that is gone."""
        if event.resource is VOLUMES:
            return (event.obj.key,)
        if event.resource is CLAIMS and event.kind == DELETED:
            name = section(event.obj.data, "spec").get("volumeName")
            return (name,) if name else ()
        return ()

    def reconcile(self, state: State, key: str, random: random_module.Random) -> float | None:
        """Say where the volume stands."""
        volume = state.of(VOLUMES).items.get(key)
        if volume is None or "deletionTimestamp" in volume.meta:
            return None
        spec, status = section(volume.data, "spec"), section(volume.data, "status")
        ref = section(spec, "claimRef")
        if not ref.get("uid"):
            changed(state, VOLUMES, volume, status={**status, "phase": "Available"})
            return None
        claim = state.of(CLAIMS).items.get(f"{ref.get('namespace')}/{ref.get('name')}")
        if claim is not None and claim.uid == ref["uid"]:
            return None
        volume = changed(state, VOLUMES, volume, status={**status, "phase": "Released"})
        if spec.get("persistentVolumeReclaimPolicy") == "Delete":
            delete(state, state.of(VOLUMES), volume, Options())
        return None
