"""scheduling.sigs.k8s.io ElasticQuota: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.cluster_watcher.core.findings import Found, problems_of
from berth.cluster_watcher.core.metadata import carried, identity_of
from berth.contracts import state
from berth.contracts.kube import ElasticQuota
from berth.resources.amounts import parse_amounts


def elastic_quota_of(item: ElasticQuota, version: int) -> state.ElasticQuota:
    """The quota group."""
    found: Found = []
    meta = item.metadata
    namespace, name = identity_of(meta, found)
    minimum, unread_minimum = parse_amounts(item.spec.min, "spec.min")
    maximum, unread_maximum = parse_amounts(item.spec.max, "spec.max")
    used, unread_used = parse_amounts(item.status.used, "status.used")
    found += unread_minimum + unread_maximum + unread_used
    return state.ElasticQuota(
        namespace=namespace,
        name=name,
        uid=meta.uid,
        version=version,
        labels=meta.labels or {},
        annotations=carried(meta.annotations),
        min=minimum,
        max=maximum,
        used=used,
        created=meta.creation_timestamp or "",
        deleting=meta.deletion_timestamp is not None,
        problems=problems_of(found),
    )
