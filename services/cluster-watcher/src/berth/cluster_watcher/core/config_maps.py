"""v1 ConfigMap: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.cluster_watcher.core.metadata import identity_of
from berth.contracts import state
from berth.contracts.kube import ConfigMap


def config_map_of(item: ConfigMap, version: int) -> state.ConfigMap:
    """The ConfigMap with its texts; `binaryData` is not carried."""
    namespace, name = identity_of(item.metadata, [])
    return state.ConfigMap(namespace=namespace, name=name, version=version, data=item.data or {})
