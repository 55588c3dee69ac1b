"""topology.node.k8s.io NodeResourceTopology: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.contracts import state
from berth.contracts.kube import NodeResourceTopology
from berth.rules.reading.metadata import carried, identity_of


def topology_of(item: NodeResourceTopology, version: int) -> state.NodeResourceTopology:
    """Zones and policies as read; its annotations carry what agents say of cores and kubelet."""
    return state.NodeResourceTopology(
        name=identity_of(item.metadata, []).name,
        version=version,
        uid=item.metadata.uid,
        labels=item.metadata.labels or {},
        annotations=carried(item.metadata.annotations),
        zones=item.zones or [],
        policies=item.topology_policies or [],
        deleting=item.metadata.deletion_timestamp is not None,
    )
