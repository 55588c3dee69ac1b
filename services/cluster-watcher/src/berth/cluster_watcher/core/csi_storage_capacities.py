"""storage.k8s.io/v1 CSIStorageCapacity: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.cluster_watcher.core.storage_amounts import bytes_of
from berth.contracts import state
from berth.contracts.kube import CSIStorageCapacity
from berth.rules.reading.metadata import identity_of
from berth.rules.selectors import compile_selector


def csi_storage_capacity_of(item: CSIStorageCapacity, version: int) -> state.CSIStorageCapacity:
    """The capacity; a topology that cannot be evaluated is nowhere, an amount that cannot be read is not said."""
    namespace, name = identity_of(item.metadata, [])
    topology = item.node_topology
    return state.CSIStorageCapacity(
        namespace=namespace,
        name=name,
        version=version,
        storage_class=item.storage_class_name,
        topology=None if compile_selector(topology).problems else topology,
        capacity=bytes_of(item.capacity, "capacity", []),
        volume_max=bytes_of(item.maximum_volume_size, "maximumVolumeSize", []),
    )
