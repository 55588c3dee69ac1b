"""VolumeRestrictions: inline disks that exclude each other on a node, and claims that only one pod may use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from berth.contracts import subjects
from berth.contracts.ledger import Step
from berth.contracts.state import VolumeUse
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target
from berth.placement_solver.core.tallies.volumes import VolumesTally
from berth.placement_solver.core.volumes import NOT_READ, Volumes
from berth.rules.storage import ClaimName, Mounter, StorageRejection, uses_claims
from berth.rules.volume_conflicts import (
    CLAIM_IN_USE,
    DISK_TAKEN,
    any_exclusion,
    exclude_each_other,
    inline_disks,
    one_pod_claims,
)
from berth.transaction.claims import Claim


class Wanted(NamedTuple):
    """The pod's inline disks, and its claims that nobody else may use."""

    disks: tuple[VolumeUse, ...]
    claims: tuple[ClaimName, ...]


class VolumeRestrictions:
    """The constraint over all pods that have a node."""

    name = "VolumeRestrictions"
    depends = Depends.VOLUMES
    exact = True

    def __init__(self, nodes: Nodes, volumes: Volumes, tally: VolumesTally) -> None:
        self._nodes = nodes
        self._volumes = volumes
        self._tally = tally

    def prefilter(self, spec: Spec) -> Wanted | Rejection | None:
        """None for a pod without such volumes, and for a Reservation, which mounts nothing."""
        volumes = spec.template.volumes
        if not volumes or not spec.name[0]:
            return None
        if uses_claims(volumes) and not self._volumes.is_complete:
            return Rejection((NOT_READ,), resolvable=False)
        claims = one_pod_claims(Mounter(spec.namespace, spec.name[1], spec.uid, volumes), self._volumes.objects)
        if isinstance(claims, StorageRejection):
            return Rejection(*claims)
        disks = inline_disks(volumes)
        if not disks and not claims:
            return None
        return Wanted(disks, tuple((spec.namespace, claim) for claim in sorted(claims)))

    def mask(self, query: Wanted, rows: Rows) -> Mask:
        """All or none for the claims; the nodes of other users for the disks."""
        mask = np.full(len(self._nodes), not any(map(self._tally.is_used, query.claims)), np.bool_)
        mask &= ~self._taken(query)
        return mask[rows]

    def admits(self, query: Wanted, row: int) -> bool:
        """See `Constraint`."""
        return self.filter(query, Target(row)) is None

    def filter(self, query: Wanted, target: Target) -> Rejection | None:
        """Disks first, as kube-scheduler does."""
        node, hypothesis = self._nodes.names[target.row], target.hypothesis
        if query.disks and any_exclusion(query.disks, self._tally.disks_on(node, hypothesis)):
            return Rejection(*DISK_TAKEN)
        if any(self._tally.is_used(claim, hypothesis) for claim in query.claims):
            return Rejection(*CLAIM_IN_USE)
        return None

    def rejections(self, query: Wanted, rows: RowArray) -> list[Rejected]:
        """The nodes whose disks are taken; all others, if a claim is in use."""
        taken = self._taken(query)[rows]
        found = [Rejected(DISK_TAKEN.reasons[0], taken)] if taken.any() else []
        if any(map(self._tally.is_used, query.claims)) and not taken.all():
            found.append(Rejected(CLAIM_IN_USE.reasons[0], ~taken))
        return found

    def reserve(self, query: Wanted, target: Target) -> tuple[Step, ...]:
        """Nothing has to happen first."""
        return ()

    def accounts(self, query: Wanted, claim: Claim) -> tuple[str, ...]:
        """One for each claim that nobody else may use."""
        return tuple(subjects.claim_account(*name) for name in query.claims)

    def _taken(self, query: Wanted) -> Mask:
        taken = np.zeros(len(self._nodes), np.bool_)
        for disk in query.disks:
            for node, other in self._tally.near_disks(disk):
                row = self._nodes.rows.get(node)
                if row is not None and exclude_each_other(disk, other):
                    taken[row] = True
        return taken
