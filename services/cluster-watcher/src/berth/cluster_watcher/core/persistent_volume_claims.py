"""v1 PersistentVolumeClaim: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.cluster_watcher.core.storage_amounts import access_modes_of, bytes_of
from berth.contracts import state
from berth.contracts.kube import PersistentVolumeClaim
from berth.contracts.names import ANNOTATION_BIND_COMPLETED, ANNOTATION_SELECTED_NODE
from berth.rules.reading.findings import Found, problems_of
from berth.rules.reading.metadata import controller_of, identity_of, named_storage_class
from berth.rules.reading.pod_affinity import check_selector


def persistent_volume_claim_of(item: PersistentVolumeClaim, version: int) -> state.PersistentVolumeClaim:
    """The claim. A selector that cannot be evaluated stays, and matches nothing."""
    found: Found = []
    meta, spec = item.metadata, item.spec
    namespace, name = identity_of(meta, found)
    annotations = meta.annotations or {}
    check_selector(spec.selector, "spec.selector", found)
    requested = (spec.resources.requests or {}).get("storage")
    return state.PersistentVolumeClaim(
        namespace=namespace,
        name=name,
        uid=meta.uid,
        version=version,
        storage_class=named_storage_class(meta, spec.storage_class_name),
        volume=spec.volume_name,
        is_bound=ANNOTATION_BIND_COMPLETED in annotations,
        access_modes=access_modes_of(spec.access_modes, found),
        volume_mode=spec.volume_mode,
        requested=bytes_of(requested, "spec.resources.requests[storage]", found) or 0,
        selector=spec.selector,
        phase=item.status.phase,
        selected_node=annotations.get(ANNOTATION_SELECTED_NODE, ""),
        owner_uid=controller_of(meta),
        deleting=meta.deletion_timestamp is not None,
        problems=problems_of(found),
    )
