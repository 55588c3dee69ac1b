"""Hints of the constraints about volumes: disks and claims that come free, limits that grow, volumes that appear."""

from __future__ import annotations

from typing import Final

from berth.contracts.state import PersistentVolume, StorageClass
from berth.rules.queueing.events import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    Action,
    Event,
)
from berth.rules.queueing.hint import Hints, NamespaceLabels, Reader, Waiter, always, held_capacity
from berth.rules.storage import CLAIM_SOURCE, WAIT_FOR_CONSUMER, Mounter, claims_used, uses_claims
from berth.rules.volume_conflicts import any_exclusion
from berth.rules.volume_limits import concerns, limits_of
from berth.rules.volume_zones import terms_of


def freed_disk_or_claim(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """A pod of the namespace is gone that had one of the disks, or used one of the claims."""
    gone = event.old
    if gone.namespace != pod.namespace:
        return False
    volumes = pod.template.volumes
    named = {volume.claim for volume in volumes if volume.source == CLAIM_SOURCE}
    used = {volume.claim for volume in gone.template.volumes if volume.source == CLAIM_SOURCE}
    return not named.isdisjoint(used) or any_exclusion(volumes, gone.template.volumes)


def freed_volumes(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """A pod is gone that had a place, and volumes that took places."""
    return held_capacity(event.old) and concerns(event.old.template.volumes)


def freed_promise(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """A pod with claims is gone, or its decision is: what that had promised of volumes is free."""
    return uses_claims(event.old.template.volumes)


def own_claim(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """It is a claim of the pod."""
    claim = event.new
    mounter = Mounter(pod.namespace, pod.name, pod.uid, pod.template.volumes)
    return claim.namespace == pod.namespace and any(used.name == claim.name for used in claims_used(mounter))


def raised_limit(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """A driver takes more volumes than before, or as many as there are."""
    before, after = limits_of(event.old), limits_of(event.new)
    return any(driver not in after or after[driver] > limit for driver, limit in before.items())


def detached(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """A volume is off its node, and the pod has claims."""
    return uses_claims(pod.template.volumes)


def migrated_otherwise(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """Other in-tree plugins are served by drivers of the node."""
    return bool(event.old.migrated != event.new.migrated)


def more_space(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """More can be provisioned somewhere, or elsewhere."""
    old, new = event.old, event.new
    return (
        old.topology != new.topology
        or (new.capacity or 0) > (old.capacity or 0)
        or (new.volume_max or 0) > (old.volume_max or 0)
        or (new.volume_max is None and old.volume_max is not None)
    )


def counts_no_space(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """The driver no longer says how much it can provision."""
    return bool(event.old.storage_capacity and not event.new.storage_capacity)


def waits_for_consumer(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """A class is there that binds when a pod has its node."""
    added: StorageClass = event.new
    return added.binding_mode == WAIT_FOR_CONSUMER


def in_another_zone(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """The zone or the region of a volume is another one."""
    old: PersistentVolume = event.old
    return terms_of(old) != terms_of(event.new)


_NODES: Final[Hints] = {(NODE, Action.ADD): always, (NODE, Action.NODE_LABEL): always}
_OWN_CLAIMS: Final[Hints] = {
    (PERSISTENT_VOLUME_CLAIM, Action.ADD): own_claim,
    (PERSISTENT_VOLUME_CLAIM, Action.UPDATE): own_claim,
}

HINTS: Final[dict[str, Hints]] = {
    "VolumeRestrictions": {
        (POD, Action.DELETE): freed_disk_or_claim,
        (NODE, Action.ADD): always,
        (PERSISTENT_VOLUME_CLAIM, Action.ADD): own_claim,
    },
    "NodeVolumeLimits": {
        (CSI_NODE, Action.ADD): always,
        (CSI_NODE, Action.UPDATE): raised_limit,
        (POD, Action.DELETE): freed_volumes,
        (PERSISTENT_VOLUME_CLAIM, Action.ADD): own_claim,
        (VOLUME_ATTACHMENT, Action.DELETE): detached,
    },
    "VolumeBinding": {
        **_NODES,
        **_OWN_CLAIMS,
        (STORAGE_CLASS, Action.ADD): always,
        (STORAGE_CLASS, Action.UPDATE): always,
        (PERSISTENT_VOLUME, Action.ADD): always,
        (PERSISTENT_VOLUME, Action.UPDATE): always,
        (CSI_NODE, Action.ADD): always,
        (CSI_NODE, Action.UPDATE): migrated_otherwise,
        (CSI_DRIVER, Action.UPDATE): counts_no_space,
        (CSI_STORAGE_CAPACITY, Action.ADD): always,
        (CSI_STORAGE_CAPACITY, Action.UPDATE): more_space,
    },
    "VolumeZone": {
        **_NODES,
        **_OWN_CLAIMS,
        (STORAGE_CLASS, Action.ADD): waits_for_consumer,
        (PERSISTENT_VOLUME, Action.ADD): always,
        (PERSISTENT_VOLUME, Action.UPDATE): in_another_zone,
    },
}
"""By the name of the constraint."""
MORE: Final[dict[str, Hints]] = {
    "NodeVolumeLimits": {(NODE, Action.ADD): always, (POD, Action.DELETE): freed_promise},
    "VolumeBinding": {(POD, Action.DELETE): freed_promise, (CSI_DRIVER, Action.DELETE): always},
    "VolumeRestrictions": {(PERSISTENT_VOLUME_CLAIM, Action.UPDATE): own_claim},
}
"""What kube-scheduler's hints leave to the flush after minutes, and what comes free when a decision is given up."""


def _reads(pod: Waiter) -> object:
    volumes = pod.template.volumes
    is_named = any(volume.source == "ephemeral" for volume in volumes)
    return (pod.namespace, pod.name if is_named else "", volumes)


READS: Final[dict[str, Reader]] = dict.fromkeys(HINTS, _reads)
"""What of a pod the hints look at."""
