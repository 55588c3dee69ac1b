"""Volumes that exclude each other: kube-scheduler's VolumeRestrictions.

Inline disks exclude each other on one node, a claim of mode ReadWriteOncePod in the whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from berth.contracts.state import VolumeUse
from berth.rules.storage import CLAIM_SOURCE, Mounter, Storage, StorageRejection, claim_not_found, is_for_one_pod

REASON_DISK: Final = "node(s) had no available disk"
REASON_ONE_POD: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

DISK_TAKEN: Final = StorageRejection((REASON_DISK,), resolvable=True)
CLAIM_IN_USE: Final = StorageRejection((REASON_ONE_POD,), resolvable=True)

_SHARED_READ_ONLY: Final = frozenset({"gcePersistentDisk", "iscsi", "rbd"})
"""Sources whose disks several pods of a node may mount, if all of them only read."""
DISK_SOURCES: Final = _SHARED_READ_ONLY | {"awsElasticBlockStore"}


def inline_disks(volumes: Iterable[VolumeUse]) -> tuple[VolumeUse, ...]:
    """Those of the volumes that may exclude each other on one node."""
    return tuple(volume for volume in volumes if volume.source in DISK_SOURCES)


def exclude_each_other(one: VolumeUse, other: VolumeUse) -> bool:
    """Whether two pods with these volumes cannot be on one node."""
    if one.source != other.source or one.source not in DISK_SOURCES:
        return False
    if one.source in _SHARED_READ_ONLY and one.read_only and other.read_only:
        return False
    if one.source == "rbd":
        return one.disk[:2] == other.disk[:2] and not set(one.disk[2:]).isdisjoint(other.disk[2:])
    return one.disk[:1] == other.disk[:1]


def any_exclusion(wanted: Sequence[VolumeUse], there: Iterable[VolumeUse]) -> bool:
    """Whether one of the wanted volumes excludes one of those that are there."""
    return any(exclude_each_other(one, other) for other in there for one in wanted)


def one_pod_claims(pod: Mounter, storage: Storage) -> frozenset[str] | StorageRejection:
    """The pod's claims that nobody else may use, by name; a Rejection when one of its claims is not there.

    Ephemeral volumes do not count: nobody else can name their claims.
    """
    found = set()
    for volume in pod.volumes:
        if volume.source != CLAIM_SOURCE:
            continue
        claim = storage.claim((pod.namespace, volume.claim))
        if claim is None:
            return StorageRejection((claim_not_found(volume.claim),))
        if is_for_one_pod(claim):
            found.add(volume.claim)
    return frozenset(found)
