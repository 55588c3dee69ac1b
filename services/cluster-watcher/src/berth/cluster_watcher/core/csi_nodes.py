"""storage.k8s.io/v1 CSINode: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

from berth.contracts import state
from berth.contracts.kube import CSINode, NodeDriver
from berth.contracts.names import ANNOTATION_MIGRATED_PLUGINS
from berth.contracts.state import CSINodeDriver
from berth.rules.reading.metadata import identity_of

DRIVERS_MAX: Final = 256
TOPOLOGY_KEYS_MAX: Final = 64
PLUGINS_MAX: Final = 64
COUNT_MAX: Final = 2**31 - 1


def csi_node_of(item: CSINode, version: int) -> state.CSINode:
    """The drivers of a node, as many as are ever there."""
    plugins = (item.metadata.annotations or {}).get(ANNOTATION_MIGRATED_PLUGINS, "")
    return state.CSINode(
        name=identity_of(item.metadata, []).name,
        version=version,
        drivers=[_driver(each) for each in (item.spec.drivers or ())[:DRIVERS_MAX]],
        migrated=[each for each in plugins.split(",")[:PLUGINS_MAX] if each],
    )


def _driver(driver: NodeDriver) -> CSINodeDriver:
    """The driver; a limit outside 0 to 2**31 - 1 is held within it."""
    count = driver.allocatable.count
    return CSINodeDriver(
        name=driver.name,
        node_id=driver.node_id,
        count=None if count is None else max(0, min(COUNT_MAX, count)),
        topology_keys=(driver.topology_keys or [])[:TOPOLOGY_KEYS_MAX],
    )
