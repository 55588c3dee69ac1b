"""v1 ConfigMap: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.contracts import state
from berth.contracts.kube import ConfigMap
from berth.rules.reading.metadata import identity_of


def config_map_of(item: ConfigMap, version: int) -> state.ConfigMap:
    """The ConfigMap with its texts; `binaryData` is not carried."""
    namespace, name = identity_of(item.metadata, [])
    return state.ConfigMap(namespace=namespace, name=name, version=version, data=item.data or {})
