"""VolumeZone: a node has to be in the zone and the region of the volumes that are bound."""

from __future__ import annotations

import numpy as np

from berth.placement_solver.core.node_labels import NodeLabels
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target
from berth.placement_solver.core.volumes import NOT_READ, Volumes
from berth.rules.storage import CLAIM_SOURCE, Mounter, StorageRejection
from berth.rules.volume_zones import OTHER_ZONE, SUCCESSORS, ZONE_LABELS, ZoneTerm, is_in_zone, zone_terms

Terms = tuple[ZoneTerm, ...]


class VolumeZone:
    """The constraint over the labels of nodes."""

    name = "VolumeZone"
    depends = Depends.VOLUMES
    exact = True

    def __init__(self, labels: NodeLabels, volumes: Volumes) -> None:
        self._labels = labels
        self._volumes = volumes

    def prefilter(self, spec: Spec) -> Terms | Rejection | None:
        """None where no bound volume says where it is."""
        volumes = spec.template.volumes
        if not volumes or not any(volume.source == CLAIM_SOURCE for volume in volumes):
            return None
        if not self._volumes.is_complete:
            return Rejection((NOT_READ,), resolvable=False)
        terms = zone_terms(Mounter(spec.namespace, spec.name[1], spec.uid, volumes), self._volumes.objects)
        return Rejection(*terms) if isinstance(terms, StorageRejection) else terms or None

    def mask(self, query: Terms, rows: Rows) -> Mask:
        """Nodes without any such label, and those that answer every term."""
        placed = np.zeros(len(self._labels), np.bool_)
        for key in ZONE_LABELS:
            placed |= self._labels.having(key)
        fits = np.ones(len(self._labels), np.bool_)
        for term in query:
            answers = self._labels.with_values(term.key, term.values)
            successor = SUCCESSORS.get(term.key)
            if successor is not None:
                answers |= self._labels.with_values(successor, term.values) & ~self._labels.having(term.key)
            fits &= answers
        return (~placed | fits)[rows]

    def admits(self, query: Terms, row: int) -> bool:
        """See `Constraint`."""
        return is_in_zone(query, self._labels.of(row))

    def filter(self, query: Terms, target: Target) -> Rejection | None:
        """No hypothesis moves a volume."""
        return None if is_in_zone(query, self._labels.of(target.row)) else Rejection(*OTHER_ZONE)

    def rejections(self, query: Terms, rows: RowArray) -> list[Rejected]:
        """The nodes elsewhere."""
        elsewhere = ~self.mask(query, rows)
        return [Rejected(OTHER_ZONE.reasons[0], elsewhere, OTHER_ZONE.resolvable)] if elsewhere.any() else []
