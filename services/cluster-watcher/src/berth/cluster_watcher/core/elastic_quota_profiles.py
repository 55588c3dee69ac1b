"""quota.koordinator.sh ElasticQuotaProfile: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.contracts import state
from berth.contracts.kube import ElasticQuotaProfile
from berth.rules.reading.findings import Found, problems_of
from berth.rules.reading.metadata import carried, identity_of


def elastic_quota_profile_of(item: ElasticQuotaProfile, version: int) -> state.ElasticQuotaProfile:
    """The profile; what its selector and its ratio mean is left to who acts on them."""
    found: Found = []
    meta, spec = item.metadata, item.spec
    namespace, name = identity_of(meta, found)
    return state.ElasticQuotaProfile(
        namespace=namespace,
        name=name,
        uid=meta.uid,
        version=version,
        labels=meta.labels or {},
        annotations=carried(meta.annotations),
        quota_name=spec.quota_name,
        quota_labels=spec.quota_labels or {},
        ratio=spec.resource_ratio or "",
        selector=spec.node_selector,
        deleting=meta.deletion_timestamp is not None,
        problems=problems_of(found),
    )
