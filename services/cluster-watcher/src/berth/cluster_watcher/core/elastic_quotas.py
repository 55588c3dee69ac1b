"""scheduling.sigs.k8s.io ElasticQuota: from the API server's object to what STATE says of it."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts import state
from berth.contracts.kube import ElasticQuota, Quantity
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.reading.findings import Found, problems_of
from berth.rules.reading.metadata import carried, identity_of


def elastic_quota_of(item: ElasticQuota, version: int) -> state.ElasticQuota:
    """The quota group."""
    found: Found = []
    meta = item.metadata
    namespace, name = identity_of(meta, found)
    minimum = _limits(item.spec.min, "spec.min", found)
    maximum = _limits(item.spec.max, "spec.max", found)
    used, unread = parse_amounts(item.status.used, "status.used")
    found += unread
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


def _limits(written: Mapping[str, Quantity] | None, field: str, found: Found) -> Amounts:
    """Amounts in which a limit that cannot be read is 0: without it the resource would be free."""
    amounts, unread = parse_amounts(written, field)
    found += unread
    if not unread:
        return amounts
    fields = dict(unread)
    return {**{name: 0 for name in written or () if f"{field}[{name}]" in fields}, **amounts}
