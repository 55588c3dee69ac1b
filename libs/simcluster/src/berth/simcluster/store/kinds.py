"""Which strategy belongs to which resource."""

from berth.simcluster.store.crds import CrdStrategy
from berth.simcluster.store.pods import PodStrategy
from berth.simcluster.store.resource import (
    CLAIMS,
    CRDS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PDBS,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    VOLUMES,
    WEBHOOKS,
    ResourceType,
)
from berth.simcluster.store.storage_strategies import ClaimStrategy, StorageClassStrategy, VolumeStrategy
from berth.simcluster.store.strategies import (
    CustomStrategy,
    EventStrategy,
    LeaseStrategy,
    NamespaceStrategy,
    NodeStrategy,
    PdbStrategy,
    PriorityClassStrategy,
    Strategy,
    WebhookStrategy,
)

_PLAIN, _CUSTOM = Strategy(), CustomStrategy()
_STRATEGIES: dict[tuple[str, str], Strategy] = {
    PODS.id: PodStrategy(),
    NODES.id: NodeStrategy(),
    NAMESPACES.id: NamespaceStrategy(),
    PRIORITY_CLASSES.id: PriorityClassStrategy(),
    PDBS.id: PdbStrategy(),
    EVENTS.id: EventStrategy(),
    LEASES.id: LeaseStrategy(),
    CRDS.id: CrdStrategy(),
    CLAIMS.id: ClaimStrategy(),
    VOLUMES.id: VolumeStrategy(),
    STORAGE_CLASSES.id: StorageClassStrategy(),
    **{each.id: WebhookStrategy() for each in WEBHOOKS},
}


def strategy_of(resource: ResourceType) -> Strategy:
    """What is special about a resource."""
    return _CUSTOM if resource.custom else _STRATEGIES.get(resource.id, _PLAIN)
