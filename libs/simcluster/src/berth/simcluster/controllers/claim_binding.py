"""Claims and volumes find each other: what the scheduler has kept for a claim, else the smallest volume that suits.

A claim of a class with WaitForFirstConsumer takes nothing but what was kept for it before a node was selected.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Iterable

from berth.simcluster.controllers.controller import changed, with_annotations
from berth.simcluster.controllers.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    claim_reference,
    is_free,
    is_kept_for,
    storage_of,
    suits,
    waits_for_consumer,
)
from berth.simcluster.store.collection import Event
from berth.simcluster.store.objects import Obj, section
from berth.simcluster.store.resource import CLAIMS, VOLUMES
from berth.simcluster.store.state import State


class ClaimBinding:
    """See the module."""

    def __init__(self, delay_s: tuple[float, float]) -> None:
        """`delay_s`: how long it takes to react."""
        self.delay_s = delay_s

    def every(self, state: State) -> Iterable[str]:
        """All claims."""
        return list(state.of(CLAIMS).items)

    def keys(self, state: State, event: Event) -> Iterable[str]:
        """The claim itself; of a volume the claim that it names, or every unbound one."""
        if event.resource is CLAIMS:
            return (event.obj.key,)
        if event.resource is not VOLUMES:
            return ()
        ref = section(section(event.obj.data, "spec"), "claimRef")
        if ref:
            return (f"{ref.get('namespace')}/{ref.get('name')}",)
        return [claim.key for claim in state.of(CLAIMS).items.values() if not _volume_name(claim)]

    def reconcile(self, state: State, key: str, random: random_module.Random) -> float | None:
        """Bind, or see that the volume of a bound claim is gone."""
        claim = state.of(CLAIMS).items.get(key)
        if claim is None or "deletionTimestamp" in claim.meta:
            return None
        name = _volume_name(claim)
        volume = state.of(VOLUMES).items.get(name) if name else _volume_for(state, claim)
        if volume is None:
            if name and BIND_COMPLETED in section(claim.meta, "annotations"):
                changed(state, CLAIMS, claim, status={**section(claim.data, "status"), "phase": "Lost"})
        elif is_kept_for(volume, claim) or is_free(volume):
            _bind(state, claim, volume)
        return None


def _volume_name(claim: Obj) -> str:
    return str(section(claim.data, "spec").get("volumeName") or "")


def _volume_for(state: State, claim: Obj) -> Obj | None:
    volumes = state.of(VOLUMES).items.values()
    kept = next((volume for volume in volumes if is_kept_for(volume, claim)), None)
    if kept is not None or waits_for_consumer(state, claim):
        return kept
    free = [volume for volume in volumes if is_free(volume) and suits(volume, claim)]
    return min(free, key=_size, default=None)


def _size(volume: Obj) -> tuple[int, str]:
    return storage_of(section(section(volume.data, "spec"), "capacity")), volume.key


def _bind(state: State, claim: Obj, volume: Obj) -> None:
    spec = section(volume.data, "spec")
    meta = volume.meta
    if not spec.get("claimRef"):
        meta = with_annotations(meta, {BOUND_BY_CONTROLLER: "yes"})
    volume = changed(
        state,
        VOLUMES,
        volume,
        metadata=dict(meta),
        spec={**spec, "claimRef": {**section(spec, "claimRef"), **claim_reference(claim)}},
        status={**section(volume.data, "status"), "phase": "Bound"},
    )
    status = {
        **section(claim.data, "status"),
        "phase": "Bound",
        "accessModes": spec.get("accessModes") or [],
        "capacity": section(spec, "capacity"),
    }
    changed(
        state,
        CLAIMS,
        claim,
        metadata=with_annotations(claim.meta, {BIND_COMPLETED: "yes"}),
        spec={**section(claim.data, "spec"), "volumeName": volume.meta["name"]},
        status=status,
    )
