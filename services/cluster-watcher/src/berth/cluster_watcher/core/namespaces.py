"""v1 Namespace: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.contracts import state
from berth.contracts.kube import Namespace
from berth.rules.reading.metadata import carried, identity_of


def namespace_of(item: Namespace, version: int) -> state.Namespace:
    """The namespace."""
    meta = item.metadata
    return state.Namespace(
        name=identity_of(meta, []).name,
        version=version,
        labels=meta.labels or {},
        annotations=carried(meta.annotations),
    )
