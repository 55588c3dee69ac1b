"""What a pod means to its node: what it holds of what is lent, and the NodeManager that it may be."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.contracts import names, state
from berth.resources.amounts import Amounts

NODE_MANAGER: Final = "node-manager"
"""What the component of a NodeManager's pod is called."""
DEFAULT_CLUSTER: Final = "__default_yarn_cluster__"
"""The cluster of a NodeManager that names none."""
_ALIVE: Final = frozenset({"", "Pending", "Running"})


class NodeManager(NamedTuple):
    """The NodeManager of a pod: its id at the ResourceManager, and its YARN cluster."""

    id: str
    cluster: str


class Part(NamedTuple):
    """A pod's part of its node."""

    node: str
    held: Amounts
    manager: NodeManager | None


def part_of(pod: state.Pod) -> Part | None:
    """A pod's part; None for one that is on no node, has ended, or has none."""
    if not pod.node or pod.phase not in _ALIVE:
        return None
    template = pod.template
    held = {
        name: template.requests[name] for name in (names.BATCH_CPU, names.BATCH_MEMORY) if name in template.requests
    }
    manager = None
    annotations = template.annotations
    if template.labels.get(names.LABEL_COMPONENT) == NODE_MANAGER:
        named = annotations.get(names.ANNOTATION_YARN_NODE_ID, "")
        if named:
            manager = NodeManager(named, annotations.get(names.ANNOTATION_YARN_CLUSTER_ID) or DEFAULT_CLUSTER)
    return Part(pod.node, held, manager) if held or manager else None
