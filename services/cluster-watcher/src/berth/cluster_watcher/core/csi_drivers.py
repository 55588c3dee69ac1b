"""storage.k8s.io/v1 CSIDriver: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.contracts import state
from berth.contracts.kube import CSIDriver
from berth.rules.reading.metadata import identity_of


def csi_driver_of(item: CSIDriver, version: int) -> state.CSIDriver:
    """Whether the driver reports how much it can provision."""
    return state.CSIDriver(
        name=identity_of(item.metadata, []).name, version=version, storage_capacity=item.spec.storage_capacity
    )
