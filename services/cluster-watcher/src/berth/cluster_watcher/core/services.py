"""v1 Service: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.contracts import state
from berth.contracts.kube import Service
from berth.rules.reading.metadata import identity_of
from berth.rules.selectors import EXPRESSIONS_MAX


def service_of(item: Service, version: int) -> state.Service:
    """The service; one with more labels than any rule takes selects nothing."""
    namespace, name = identity_of(item.metadata, [])
    selector = item.spec.selector or {}
    return state.Service(
        namespace=namespace, name=name, version=version, selector=selector if len(selector) <= EXPRESSIONS_MAX else {}
    )
