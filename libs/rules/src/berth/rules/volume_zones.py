"""The zones and regions of bound volumes, which the node has to be in: kube-scheduler's VolumeZone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.state import PersistentVolume
from berth.rules.storage import (
    CLAIM_SOURCE,
    WAIT_FOR_CONSUMER,
    Mounter,
    Storage,
    StorageRejection,
    claim_not_found,
    volume_not_found,
)

REASON: Final = "node(s) had no available volume zone"
OTHER_ZONE: Final = StorageRejection((REASON,))

_SEPARATOR: Final = "__"
SUCCESSORS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""The label that came after an old one: a node may have it in its place."""
ZONE_LABELS: Final = (*SUCCESSORS, *SUCCESSORS.values())


class ZoneTerm(NamedTuple):
    """A label of a volume, and the values of which the node has to have one."""

    key: str
    values: frozenset[str]


def zone_terms(pod: Mounter, storage: Storage) -> tuple[ZoneTerm, ...] | StorageRejection:
    """What the bound volumes of a pod ask of its node; a Rejection when a volume or a claim is not as it has to be."""
    terms: list[ZoneTerm] = []
    for used in pod.volumes:
        if used.source != CLAIM_SOURCE:
            continue
        if not used.claim:
            return StorageRejection(("PersistentVolumeClaim had no name",))
        claim = storage.claim((pod.namespace, used.claim))
        if claim is None:
            return StorageRejection((claim_not_found(used.claim),))
        if not claim.volume:
            rejection = _unbound(claim.storage_class or "", storage)
            if rejection is not None:
                return rejection
            continue
        volume = storage.volume(claim.volume)
        if volume is None:
            return StorageRejection((volume_not_found(claim.volume),))
        terms += terms_of(volume)
    return tuple(terms)


def terms_of(volume: PersistentVolume) -> list[ZoneTerm]:
    """What the labels of a volume ask of a node. A label with an empty part says nothing."""
    terms = []
    for key in ZONE_LABELS:
        if key in volume.labels:
            values = [part.strip() for part in volume.labels[key].split(_SEPARATOR)]
            if all(values):
                terms.append(ZoneTerm(key, frozenset(values)))
    return terms


def is_in_zone(terms: Iterable[ZoneTerm], labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is where the volumes are; one without any label of zone or region is."""
    if not any(key in labels for key in ZONE_LABELS):
        return True
    return all(_value(term.key, labels) in term.values for term in terms)


def _value(key: str, labels: Mapping[str, str]) -> str | None:
    return labels[key] if key in labels else labels.get(SUCCESSORS.get(key, key))


def _unbound(class_name: str, storage: Storage) -> StorageRejection | None:
    """Why a claim without a volume cannot wait for its node; None when it can."""
    if not class_name:
        return StorageRejection(("PersistentVolumeClaim had no pv name and storageClass name",))
    storage_class = storage.storage_class(class_name)
    if storage_class is None:
        return StorageRejection((f'storageclass.storage.k8s.io "{class_name}" not found',))
    if not storage_class.binding_mode:
        return StorageRejection((f'VolumeBindingMode not set for StorageClass "{class_name}"',))
    if storage_class.binding_mode == WAIT_FOR_CONSUMER:
        return None
    return StorageRejection(("PersistentVolume had no name",))
