"""The objects of storage that STATE shows: claims, volumes, classes, and what CSI drivers report.

A pod with claims waits until all of these kinds are complete: a volume that is not read yet may be the one that its
claim is bound to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.state import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from berth.placement_solver.core.state_keys import namespaced, tombstone_version
from berth.rules.storage import StorageObjects
from berth.transaction.completeness import Completeness

NOT_READ: Final = "the claims and volumes of the cluster are not all read yet"


class Kind(NamedTuple):
    """A kind of objects of storage: its name in markers, its messages, and where they go."""

    plural: str
    message: type[msgspec.Struct]
    see: Callable[[StorageObjects, Any, Any], None]
    is_namespaced: bool = False


KINDS: Final = {
    "persistentvolumeclaim": Kind(
        "persistentvolumeclaims", PersistentVolumeClaim, StorageObjects.see_claim, is_namespaced=True
    ),
    "persistentvolume": Kind("persistentvolumes", PersistentVolume, StorageObjects.see_volume),
    "storageclass": Kind("storageclasses", StorageClass, StorageObjects.see_class),
    "csinode": Kind("csinodes", CSINode, StorageObjects.see_csi_node),
    "csidriver": Kind("csidrivers", CSIDriver, StorageObjects.see_csi_driver),
    "csistoragecapacity": Kind(
        "csistoragecapacities", CSIStorageCapacity, StorageObjects.see_capacity, is_namespaced=True
    ),
    "volumeattachment": Kind("volumeattachments", VolumeAttachment, StorageObjects.see_attachment),
}
"""By the first token of their keys."""


class StorageChange(NamedTuple):
    """An object of storage as it was and as it is; None where there was or is none."""

    before: Any
    after: Any


class Volumes:
    """STATE's objects of storage.

    `version` rises with every change of one, `provisioning_version` with those that say what can be provisioned where.

    `complete` holds through which version each kind is complete, by its name in markers.
    """

    def __init__(self) -> None:
        self.objects = StorageObjects()
        self.complete = {kind.plural: Completeness() for kind in KINDS.values()}
        self.version = 0
        self.provisioning_version = 0
        self._seen: dict[tuple[str, Any], msgspec.Struct] = {}
        self._watchers: list[Callable[[StorageChange | None], None]] = []

    @property
    def is_complete(self) -> bool:
        """Whether every kind was read to its end."""
        return all(tracker.is_known for tracker in self.complete.values())

    def watch(self, watcher: Callable[[StorageChange | None], None]) -> None:
        """Called with each change; None: everything may have changed."""
        self._watchers.append(watcher)

    def reset(self) -> None:
        """STATE starts over."""
        self.objects.clear()
        self._seen.clear()
        for tracker in self.complete.values():
            tracker.reset()
        self._changed(None)

    def read(self, prefix: str, rest: str, value: bytes, *, deleted: bool) -> None:
        """Take in one message of a kind of `KINDS`. Raises InvalidMessage."""
        kind = KINDS[prefix]
        name: Any = namespaced(rest) if kind.is_namespaced else subjects.unescape(rest)
        tracker = self.complete[kind.plural]
        before = self._seen.pop((prefix, name), None)
        after = None
        if deleted:
            tracker.seen(tombstone_version(value))
        else:
            after = decode(value, kind.message)
            tracker.seen(after.version)  # type: ignore[attr-defined]
            self._seen[prefix, name] = after
        kind.see(self.objects, name, after)
        if before is not None or after is not None:
            self._changed(StorageChange(before, after))

    def _changed(self, change: StorageChange | None) -> None:
        self.version += 1
        changed = None if change is None else change.before or change.after
        if changed is None or isinstance(changed, StorageClass | CSIDriver | CSIStorageCapacity):
            self.provisioning_version += 1
        for watcher in self._watchers:
            watcher(change)
