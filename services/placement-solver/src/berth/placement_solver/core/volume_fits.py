"""Free volumes by the nodes that reach them, for each shape of claims that wait.

Kept up volume by volume: a pick costs as much for ten thousand local volumes as for one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec
import numpy as np

from berth.contracts.state import PersistentVolume, PersistentVolumeClaim
from berth.placement_solver.core.node_labels import NodeLabels
from berth.placement_solver.core.seams import Mask
from berth.placement_solver.core.tallies.volumes import VolumesTally
from berth.placement_solver.core.volumes import StorageChange, Volumes
from berth.rules.volume_binding import size_order, suits

SHAPES_MAX: Final = 256


class FreeVolumes:
    """Volumes that are kept for nobody, neither by their own word nor by a decision that is not visible yet."""

    def __init__(self, volumes: Volumes, labels: NodeLabels, used: VolumesTally) -> None:
        self._storage = volumes.objects
        self._labels = labels
        self._is_kept = used.is_kept
        self._shapes: dict[bytes, _Shape] = {}
        volumes.watch(self._storage_changed)
        used.on_kept = self.changed

    def _storage_changed(self, change: StorageChange | None) -> None:
        if change is None:
            self._shapes.clear()
        elif isinstance(each := change.before or change.after, PersistentVolume):
            self.changed(each.name)

    def changed(self, name: str) -> None:
        """A volume is another one now, or is kept for somebody, or is so no longer."""
        for shape in self._shapes.values():
            shape.unread.add(name)

    def mask(self, claim: PersistentVolumeClaim) -> Mask:
        """The nodes that reach a free volume that fits the claim."""
        shape = self._shape(claim)
        return np.ones(len(self._labels), np.bool_) if shape.everywhere else shape.count[: len(self._labels)] > 0

    def smallest(self, claim: PersistentVolumeClaim, row: int, excluded: Collection[str]) -> PersistentVolume | None:
        """The volume that the claim gets on this node."""
        shape = self._shape(claim)
        there = (*shape.everywhere.values(), *shape.at.get(row, {}).values())
        return min((each for each in there if each.name not in excluded), key=size_order, default=None)

    def _shape(self, claim: PersistentVolumeClaim) -> _Shape:
        key = _key(claim)
        version = self._labels.version
        shape = self._shapes.pop(key, None)
        if shape is None or shape.labels_version != version:
            shape = _Shape(version, len(self._labels))
            shape.unread.update(each.name for each in self._storage.volumes_of_class(claim.storage_class or ""))
        self._shapes[key] = shape
        if len(self._shapes) > SHAPES_MAX:
            del self._shapes[next(iter(self._shapes))]
        for name in shape.unread:
            shape.take_out(name)
            volume = self._storage.volume(name)
            if volume is not None and not self._is_kept(name) and suits(volume, claim):
                affinity = volume.node_affinity
                shape.put_in(volume, None if affinity is None else self._labels.reached(affinity).tolist())
        shape.unread.clear()
        return shape


class _Shape:
    """Free volumes that fit one shape of claims: those that every node reaches, and the others by row."""

    def __init__(self, labels_version: int, rows: int) -> None:
        self.labels_version = labels_version
        self.unread: set[str] = set()
        self.everywhere: dict[str, PersistentVolume] = {}
        self.at: dict[int, dict[str, PersistentVolume]] = {}
        self.count = np.zeros(rows, np.int32)
        self._rows: dict[str, list[int]] = {}

    def put_in(self, volume: PersistentVolume, rows: Iterable[int] | None) -> None:
        """The volume is free and fits; `rows` None: every node reaches it."""
        if rows is None:
            self.everywhere[volume.name] = volume
            return
        self._rows[volume.name] = list(rows)
        for row in self._rows[volume.name]:
            self.at.setdefault(row, {})[volume.name] = volume
            self.count[row] += 1

    def take_out(self, name: str) -> None:
        """The volume is not free any more, or does not fit."""
        self.everywhere.pop(name, None)
        for row in self._rows.pop(name, ()):
            del self.at[row][name]
            self.count[row] -= 1


def _key(claim: PersistentVolumeClaim) -> bytes:
    modes = sorted(claim.access_modes)
    return msgspec.json.encode([claim.storage_class or "", claim.requested, modes, claim.volume_mode, claim.selector])
