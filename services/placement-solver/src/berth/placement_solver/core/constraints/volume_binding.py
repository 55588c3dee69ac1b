"""VolumeBinding: a pod's bound volumes have to be reached from its node, and its waiting claims need volumes there.

Which volume a claim gets is chosen when the node is: `reserve` gives the steps that come before the bind. What a step
of a withdrawn decision has kept or selected counts as any other does (R17).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from berth.contracts import subjects
from berth.contracts.base import Problem
from berth.contracts.ledger import Step
from berth.contracts.state import PersistentVolume, PersistentVolumeClaim, StorageClass
from berth.placement_solver.core.node_labels import NodeLabels
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import (
    NOTHING,
    Depends,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
    Unusable,
)
from berth.placement_solver.core.tallies.volumes import BIND, PROVISION, VolumesTally
from berth.placement_solver.core.volume_fits import FreeVolumes
from berth.placement_solver.core.volumes import NOT_READ, Volumes
from berth.rules import volume_binding as rule
from berth.rules.storage import Mounter, StorageRejection, is_bound_to, uses_claims
from berth.rules.volume_binding import Choice, Choices, PodClaims
from berth.transaction.claims import Claim

CACHED_MAX: Final = 256


class Wanted(NamedTuple):
    """The claims of a pod, as they were at a version of what is known of storage."""

    pod: Mounter
    claims: PodClaims
    version: int


class Verdicts(NamedTuple):
    """The nodes that each reason rules out, for all rows, in kube-scheduler's order of reasons."""

    unreached: Mask
    without_volume: Mask
    without_space: Mask
    gone: Mask

    def passing(self) -> Mask:
        """The nodes that no reason rules out."""
        return ~(self.unreached | self.without_volume | self.without_space | self.gone)


class VolumeBinding:
    """The constraint over all volumes and claims. Its mask is a relaxation for pods with several waiting claims: which
    of them gets which volume is worked out on one node."""

    name = "VolumeBinding"
    depends = Depends.VOLUMES
    exact = False

    def __init__(
        self, nodes: Nodes, labels: NodeLabels, volumes: Volumes, tally: VolumesTally, free: FreeVolumes
    ) -> None:
        self._nodes = nodes
        self._labels = labels
        self._volumes = volumes
        self._storage = volumes.objects
        self._tally = tally
        self._free = free
        self._provisioning: dict[tuple[str, int], tuple[Mask, Mask]] = {}
        self._provisioning_of = (-1, -1)

    def prefilter(self, spec: Spec) -> Wanted | Rejection | Unusable | None:
        """None for a pod without claims."""
        volumes = spec.template.volumes
        if not volumes or not uses_claims(volumes):
            return None
        if not self._volumes.is_complete:
            return Rejection((NOT_READ,), resolvable=False)
        pod = Mounter(spec.namespace, spec.name[1], spec.uid, volumes)
        claims = rule.claims_of(pod, self._storage)
        if isinstance(claims, StorageRejection):
            return Rejection(*claims)
        if not spec.name[0] and claims.waiting:
            message = f"a Reservation binds no volumes: claim {claims.waiting[0].name} is not bound"
            return Unusable((Problem(field="spec.template.spec.volumes", message=message),))
        return Wanted(pod, claims, self._volumes.version)

    def _claims(self, query: Wanted) -> PodClaims | StorageRejection:
        """The claims as they are now: the optimiser may have thought while they changed."""
        if query.version == self._volumes.version:
            return query.claims
        return rule.claims_of(query.pod, self._storage)

    # --- all nodes at once -------------------------------------------------------------------------------------------

    def mask(self, query: Wanted, rows: Rows) -> Mask:
        """The nodes that reach the bound volumes, and where each waiting claim by itself can have one."""
        claims = self._claims(query)
        if isinstance(claims, StorageRejection):
            return np.zeros(len(self._nodes), np.bool_)[rows]
        return self._verdicts(claims).passing()[rows]

    def rejections(self, query: Wanted, rows: RowArray) -> list[Rejected]:
        """Each reason with the nodes that it rules out."""
        claims = self._claims(query)
        if isinstance(claims, StorageRejection):
            every = np.ones(len(rows), np.bool_)
            return [Rejected(reason, every, claims.resolvable) for reason in claims.reasons]
        verdicts = Verdicts(*(np.array(mask[rows]) for mask in self._verdicts(claims)))
        if len(claims.waiting) > 1:
            self._work_out(query, rows, verdicts)
        reasons = (rule.REASON_NODE, rule.REASON_NO_VOLUME, rule.REASON_SPACE, rule.REASON_GONE)
        return [
            Rejected(reason, ruled_out, resolvable=False)
            for reason, ruled_out in zip(reasons, verdicts, strict=True)
            if ruled_out.any()
        ]

    def _work_out(self, query: Wanted, rows: RowArray, verdicts: Verdicts) -> None:
        """Several waiting claims: what rules a node out follows from which of them was looked at first."""
        for at, row in enumerate(rows.tolist()):
            reasons = self._choose(query, Target(row)).reasons
            verdicts.without_volume[at] = rule.REASON_NO_VOLUME in reasons
            verdicts.without_space[at] = rule.REASON_SPACE in reasons

    def _verdicts(self, claims: PodClaims) -> Verdicts:
        verdicts = Verdicts(*(np.zeros(len(self._nodes), np.bool_) for _ in range(4)))
        for claim in claims.bound:
            volume = self._storage.volume(claim.volume)
            if volume is None:
                verdicts.gone[~verdicts.unreached] = True
                break
            verdicts.unreached[~verdicts.gone & ~self._reach(volume)] = True
        for claim in claims.waiting:
            self._rule_out(claim, verdicts)
        return verdicts

    def _rule_out(self, claim: PersistentVolumeClaim, verdicts: Verdicts) -> None:
        served = np.zeros(len(self._nodes), np.bool_)
        selected = rule.selected_node(claim, self._tally.promises())
        if not selected:
            kept = self._kept(claim)
            served |= self._free.mask(claim) if kept is None else self._reach(kept)
        allowed, roomy = self._provisioned(claim)
        lacking = ~served & ~allowed
        cramped = ~served & allowed & ~roomy
        if selected:
            elsewhere = np.ones(len(self._nodes), np.bool_)
            row = self._nodes.rows.get(selected)
            if row is not None:
                elsewhere[row] = False
            lacking |= elsewhere
            cramped &= ~elsewhere
        fine = ~(verdicts.without_volume | verdicts.without_space)
        verdicts.without_volume[fine & lacking] = True
        verdicts.without_space[fine & cramped] = True

    def _reach(self, volume: PersistentVolume) -> Mask:
        if volume.node_affinity is None:
            return np.ones(len(self._nodes), np.bool_)
        reached = np.zeros(len(self._nodes), np.bool_)
        reached[self._labels.reached(volume.node_affinity)] = True
        return reached

    def _provisioned(self, claim: PersistentVolumeClaim) -> tuple[Mask, Mask]:
        """Where the class of the claim provisions, and where there is space for it."""
        version = (self._labels.version, self._volumes.provisioning_version)
        if self._provisioning_of != version:
            self._provisioning_of = version
            self._provisioning.clear()
        key = (claim.storage_class or "", claim.requested)
        found = self._provisioning.get(key)
        if found is None:
            if len(self._provisioning) >= CACHED_MAX:
                self._provisioning.clear()
            found = self._provisioning[key] = self._work_out_provisioning(claim)
        return found

    def _work_out_provisioning(self, claim: PersistentVolumeClaim) -> tuple[Mask, Mask]:
        nowhere = np.zeros(len(self._nodes), np.bool_)
        storage_class = self._storage.storage_class(claim.storage_class or "")
        if storage_class is None or not rule.provisions(storage_class):
            return nowhere, nowhere
        allowed = self._allowed(storage_class)
        if not rule.counts_space(claim, storage_class, self._storage):
            return allowed, allowed
        roomy = nowhere
        for capacity in self._storage.capacities_of(storage_class.name):
            if rule.is_enough(capacity, claim.requested):
                roomy = roomy | self._labels.selected(capacity.topology)
        return allowed, roomy

    def _allowed(self, storage_class: StorageClass) -> Mask:
        if not storage_class.allowed:
            return np.ones(len(self._nodes), np.bool_)
        allowed = np.zeros(len(self._nodes), np.bool_)
        for term in storage_class.allowed:
            fits = np.full(len(self._nodes), bool(term.values), np.bool_)
            for key, values in term.values.items():
                fits &= self._labels.with_values(key, values)
            allowed |= fits
        return allowed

    # --- one node ----------------------------------------------------------------------------------------------------

    def admits(self, query: Wanted, row: int) -> bool:
        """See `Constraint`."""
        return bool(self.mask(query, slice(row, row + 1))[0])

    def filter(self, query: Wanted, target: Target) -> Rejection | None:
        """Exactly, which volume each claim gets included."""
        reasons = self._choose(query, target).reasons
        return Rejection(reasons, resolvable=False) if reasons else None

    def reserve(self, query: Wanted, target: Target) -> tuple[Step, ...] | Rejection:
        """The steps that bind or provision the volumes of the waiting claims."""
        found = self._choose(query, target)
        return Rejection(found.reasons, resolvable=False) if found.reasons else tuple(map(_step, found.choices))

    def accounts(self, query: Wanted, claim: Claim) -> tuple[str, ...]:
        """Those of the claims that wait and of the volumes that are kept for them."""
        waiting = [subjects.claim_account(each.namespace, each.name) for each in query.claims.waiting]
        return (*waiting, *(subjects.volume_account(step.volume) for step in claim.before if step.volume))

    def _choose(self, query: Wanted, target: Target) -> Choices:
        claims = self._claims(query)
        if isinstance(claims, StorageRejection):
            return Choices((), claims.reasons)
        node, labels = self._nodes.names[target.row], self._labels.of(target.row)
        if target.hypothesis != NOTHING:
            promises = self._tally.promises(target.hypothesis)
            return rule.choose(claims, node, labels, self._storage, promises)
        return rule.choose(
            claims,
            node,
            labels,
            self._storage,
            self._tally.promises(),
            smallest=lambda claim, taken: self._smallest(claim, target.row, taken),
        )

    def _smallest(self, claim: PersistentVolumeClaim, row: int, taken: set[str]) -> PersistentVolume | None:
        """What `rule.smallest_fit` finds, without looking at every volume."""
        kept = self._kept(claim, taken)
        if kept is None:
            return self._free.smallest(claim, row, taken)
        return kept if rule.is_reached(kept, self._labels.of(row)) else None

    def _kept(self, claim: PersistentVolumeClaim, taken: set[str] | None = None) -> PersistentVolume | None:
        """The volume that is kept for this claim, by its own word or by that of a decision."""
        name = (claim.namespace, claim.name)
        named = [each for each in self._storage.volumes_kept_for(name) if is_bound_to(each, claim)]
        promised = [self._storage.volume(each) for each in self._tally.kept_for(name, claim.uid)]
        named += [each for each in promised if each is not None and not each.claim]
        fitting = [
            each
            for each in named
            if each.storage_class == (claim.storage_class or "")
            and rule.is_large_enough(each, claim)
            and (taken is None or each.name not in taken)
        ]
        return min(fitting, key=lambda each: each.name, default=None)


def _step(choice: Choice) -> Step:
    claim, volume = choice
    if volume is None:
        return Step(action=PROVISION, claim=claim.name, claim_uid=claim.uid)
    return Step(action=BIND, claim=claim.name, claim_uid=claim.uid, volume=volume.name, volume_uid=volume.uid)
