"""Which events make a pod that was rejected for its volumes worth another try."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.rules.queueing.hinting import hint_of

from berth.contracts.state import (
    CSINode,
    CSINodeDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
    VolumeUse,
)
from berth.rules.queueing import MORE, Action, Event
from berth.rules.queueing.events import POD
from berth.testing.builders import pod


def mounting(name: str, *uses: VolumeUse, node: str = "n") -> Pod:
    return pod(name).template(volumes=list(uses)).set(node=node).build(1)


def named(claim: str) -> VolumeUse:
    return VolumeUse(source="persistentVolumeClaim", claim=claim)


DISK = VolumeUse(source="gcePersistentDisk", disk=["d"])
WAITING = mounting("waiting", named("c"), DISK, VolumeUse(source="ephemeral", claim="e"), node="")


def claim(name: str, namespace: str = "default") -> PersistentVolumeClaim:
    return PersistentVolumeClaim(namespace=namespace, name=name, uid=name, version=1)


def csi_node(count: int | None, migrated: list[str] | None = None) -> CSINode:
    drivers = [CSINodeDriver(name="d", count=count)]
    return CSINode(name="n", version=1, drivers=drivers, migrated=migrated or [])


def space(capacity: int) -> CSIStorageCapacity:
    return CSIStorageCapacity(namespace="k", name="s", version=1, storage_class="s", capacity=capacity)


def volume(zone: str) -> PersistentVolume:
    return PersistentVolume(name="v", uid="v", version=1, labels={"topology.kubernetes.io/zone": zone})


CLASS = StorageClass(name="s", version=1, binding_mode="Immediate")
ATTACHMENT = VolumeAttachment(name="a", version=1)


@pytest.mark.parametrize(
    ("plugin", "old", "new", "expected"),
    [
        ("VolumeRestrictions", mounting("gone", DISK), None, True),
        ("VolumeRestrictions", mounting("gone", named("c")), None, True),
        ("VolumeRestrictions", mounting("gone", named("other")), None, False),
        ("VolumeRestrictions", None, claim("c"), True),
        ("VolumeRestrictions", None, claim("c", "elsewhere"), False),
        ("NodeVolumeLimits", csi_node(1), csi_node(2), True),
        ("NodeVolumeLimits", csi_node(1), csi_node(None), True),
        ("NodeVolumeLimits", csi_node(2), csi_node(2), False),
        ("NodeVolumeLimits", mounting("gone", named("x")), None, True),
        ("NodeVolumeLimits", mounting("gone", named("x"), node=""), None, False),
        ("NodeVolumeLimits", mounting("gone"), None, False),
        ("NodeVolumeLimits", ATTACHMENT, None, True),
        ("NodeVolumeLimits", None, ATTACHMENT, None),
        ("VolumeBinding", claim("c"), claim("c"), True),
        ("VolumeBinding", None, claim("waiting-e"), True),
        ("VolumeBinding", None, claim("x"), False),
        ("VolumeBinding", None, volume("a"), True),
        ("VolumeBinding", space(1), space(2), True),
        ("VolumeBinding", space(2), space(1), False),
        ("VolumeBinding", csi_node(1), csi_node(2), False),
        ("VolumeBinding", mounting("gone", named("x")), None, None),
        ("VolumeZone", volume("a"), volume("b"), True),
        ("VolumeZone", volume("a"), volume("a"), False),
        ("VolumeZone", None, CLASS, False),
    ],
)
def test_hints(plugin: str, old: Any, new: Any, expected: bool | None) -> None:
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
    event = Event(type(old or new).__name__, action, old, new)
    assert hint_of(plugin, WAITING, event) is expected


def test_a_decision_that_is_given_up_frees_what_it_had_promised() -> None:
    hint = MORE["VolumeBinding"][POD, Action.DELETE]
    assert hint(WAITING, Event(POD, Action.DELETE, mounting("undecided", named("x"), node=""), None), lambda name: {})
    assert not hint(WAITING, Event(POD, Action.DELETE, mounting("plain", node=""), None), lambda name: {})
