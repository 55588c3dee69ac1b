"""What the runner wants of a controller, and what several controllers share."""

from __future__ import annotations

import random as random_module
from collections.abc import Iterable, Iterator
from typing import Protocol

from berth.simcluster.store.collection import Collection, Event
from berth.simcluster.store.objects import Json, Obj, section
from berth.simcluster.store.resource import ResourceType
from berth.simcluster.store.state import State


class Controller(Protocol):
    """Brings single objects to where they should be. `delay_s`: how long it takes to react, from and to."""

    delay_s: tuple[float, float]

    def every(self, state: State) -> Iterable[str]:
        """The keys of all that there is to look at, for the start."""

    def keys(self, state: State, event: Event) -> Iterable[str]:
        """What has to be looked at after a change. Called inside the change, so it must not write."""

    def reconcile(self, state: State, key: str, random: random_module.Random) -> float | None:
        """Do what is missing; seconds until the key is to be looked at again, None: not before something changes."""


def owner_of(obj: Obj, kind: str) -> tuple[str, str] | None:
    """(key, uid) of the controlling owner if it is of this kind."""
    for owner in obj.meta.get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == kind:
            return f"{obj.meta.get('namespace', '')}/{owner.get('name', '')}", str(owner.get("uid", ""))
    return None


def owned_by(collection: Collection, key: str, kind: str) -> Iterator[tuple[Obj, str]]:
    """The objects in a namespace whose controlling owner has this key, with the uid that they name."""
    namespace = key.partition("/")[0]
    for obj in list(collection.scan(namespace, {})):
        owner = owner_of(obj, kind)
        if owner is not None and owner[0] == key:
            yield obj, owner[1]


def reference_to(owner: Obj) -> Json:
    """A controlling owner reference."""
    data, meta = owner.data, owner.meta
    return {
        "apiVersion": data["apiVersion"],
        "kind": data["kind"],
        "name": meta["name"],
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def changed(state: State, resource: ResourceType, obj: Obj, **parts: Json) -> Obj:
    """Write parts of an object (`spec`, `status`, `metadata`); what is as it was writes nothing."""
    if all(obj.data.get(part) == value for part, value in parts.items()):
        return obj
    return state.replace(state.of(resource), obj, {**obj.data, "metadata": dict(obj.meta), **parts})


def with_annotations(meta: Json, annotations: dict[str, str | None]) -> Json:
    """The metadata with annotations set, or taken away (None)."""
    merged = {**section(meta, "annotations"), **annotations}
    return {**meta, "annotations": {name: value for name, value in merged.items() if value is not None}}
