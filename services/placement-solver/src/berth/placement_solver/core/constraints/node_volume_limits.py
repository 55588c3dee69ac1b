"""NodeVolumeLimits: how many volumes of a CSI driver a node takes."""

from __future__ import annotations

import numpy as np

from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target
from berth.placement_solver.core.tallies.volumes import VolumesTally
from berth.placement_solver.core.volumes import NOT_READ, Volumes
from berth.rules.storage import Mounter, StorageRejection, uses_claims
from berth.rules.volume_limits import (
    TOO_MANY,
    Attachable,
    concerns,
    counted,
    exceeds,
    limits_of,
    migrated,
    wanted_volumes,
)

Wanted = frozenset[Attachable]


class NodeVolumeLimits:
    """The constraint over all nodes whose drivers limit volumes."""

    name = "NodeVolumeLimits"
    depends = Depends.VOLUMES
    exact = True

    def __init__(self, nodes: Nodes, volumes: Volumes, tally: VolumesTally) -> None:
        self._nodes = nodes
        self._volumes = volumes
        self._tally = tally

    def prefilter(self, spec: Spec) -> Wanted | Rejection | None:
        """None for a pod whose volumes take no places, and for a Reservation, which mounts nothing."""
        volumes = spec.template.volumes
        if not volumes or not spec.name[0] or not concerns(volumes):
            return None
        if uses_claims(volumes) and not self._volumes.is_complete:
            return Rejection((NOT_READ,), resolvable=False)
        wanted = wanted_volumes(Mounter(spec.namespace, spec.name[1], spec.uid, volumes), self._volumes.objects)
        if isinstance(wanted, StorageRejection):
            return Rejection(*wanted)
        limited = self._tally.limited_drivers()
        return frozenset(each for each in wanted if each.driver in limited) or None

    def mask(self, query: Wanted, rows: Rows) -> Mask:
        """By counts; a node that has one of the volumes already, or may not count one, is asked by itself."""
        mask = np.ones(len(self._nodes), np.bool_)
        more: dict[str, int] = {}
        for each in query:
            more[each.driver] = more.get(each.driver, 0) + 1
        for driver, count in more.items():
            mask &= self._tally.have_space(driver, count)
        if any(each.plugin for each in query):
            doubtful = np.flatnonzero(~mask).tolist()
        else:
            doubtful = [row for each in query for row in self._tally.rows_with(each.identity)]
        for row in doubtful:
            if not mask[row]:
                mask[row] = self.filter(query, Target(row)) is None
        return mask[rows]

    def admits(self, query: Wanted, row: int) -> bool:
        """See `Constraint`."""
        return self.filter(query, Target(row)) is None

    def filter(self, query: Wanted, target: Target) -> Rejection | None:
        """The volumes that count on the node, under the hypothesis."""
        node = self._nodes.names[target.row]
        csi_node = self._volumes.objects.csi_node(node)
        limits = limits_of(csi_node)
        wanted = counted(query, migrated(csi_node))
        if not limits or not wanted:
            return None
        there = self._tally.volumes_on(node, target.hypothesis)
        return Rejection(*TOO_MANY) if exceeds(wanted, there, limits) else None

    def rejections(self, query: Wanted, rows: RowArray) -> list[Rejected]:
        """The nodes that take no more."""
        full = ~self.mask(query, rows)
        return [Rejected(TOO_MANY.reasons[0], full)] if full.any() else []
