"""What happened in the cluster, in the words by which constraints say what they wait for.

A change of an object may be several events: of its labels, its taints, its capacity. A change that is none of those is
an `UPDATE`, which wakes whoever waits for any update of the kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple

from berth.contracts.state import Node, Pod

POD: Final = "Pod"
NODE: Final = "Node"
PERSISTENT_VOLUME: Final = "PersistentVolume"
PERSISTENT_VOLUME_CLAIM: Final = "PersistentVolumeClaim"
STORAGE_CLASS: Final = "StorageClass"
CSI_NODE: Final = "CSINode"
CSI_DRIVER: Final = "CSIDriver"
CSI_STORAGE_CAPACITY: Final = "CSIStorageCapacity"
NODE_METRIC: Final = "NodeMetric"
"""What a node uses, by METRICS or a NodeMetric."""
VOLUME_ATTACHMENT: Final = "VolumeAttachment"


class Action(StrEnum):
    """What became of an object."""

    ADD = "Add"
    DELETE = "Delete"
    UPDATE = "Update"
    NODE_LABEL = "UpdateNodeLabel"
    NODE_TAINT = "UpdateNodeTaint"
    NODE_ALLOCATABLE = "UpdateNodeAllocatable"
    POD_LABEL = "UpdatePodLabel"
    POD_SCALE_DOWN = "UpdatePodScaleDown"
    POD_TOLERATION = "UpdatePodToleration"
    POD_GATES_ELIMINATED = "UpdatePodSchedulingGatesEliminated"


class Event(NamedTuple):
    """One thing that happened to a message of STATE. `old` is None for an ADD, `new` for a DELETE."""

    resource: str
    action: Action
    old: Any = None
    new: Any = None


def events_of(resource: str, old: Any, new: Any) -> list[Event]:
    """The events that a change from `old` to `new` is; none when both are None."""
    if old is None and new is None:
        return []
    if old is None:
        return [Event(resource, Action.ADD, old, new)]
    if new is None:
        return [Event(resource, Action.DELETE, old, new)]
    if resource == NODE:
        actions = list(_node_actions(old, new))
    elif resource == POD:
        actions = list(_pod_actions(old, new)) or [Action.UPDATE]
    else:
        actions = [Action.UPDATE]
    return [Event(resource, action, old, new) for action in actions]


def _node_actions(old: Node, new: Node) -> Iterator[Action]:
    if old.allocatable != new.allocatable:
        yield Action.NODE_ALLOCATABLE
    if old.labels != new.labels:
        yield Action.NODE_LABEL
    # That a cordon ends counts as a change of taints; its beginning is no event.
    if old.taints != new.taints or (old.unschedulable and not new.unschedulable):
        yield Action.NODE_TAINT


def _pod_actions(old: Pod, new: Pod) -> Iterator[Action]:
    before, after = old.template, new.template
    if before.labels != after.labels:
        yield Action.POD_LABEL
    if any(amount > after.requests.get(name, 0) for name, amount in before.requests.items()):
        yield Action.POD_SCALE_DOWN
    if before.gates and not after.gates:
        yield Action.POD_GATES_ELIMINATED
    if len(before.tolerations) != len(after.tolerations):
        yield Action.POD_TOLERATION
