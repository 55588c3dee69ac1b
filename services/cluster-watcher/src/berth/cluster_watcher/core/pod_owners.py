"""Controllers that own pods: from the API server's objects to what STATE says of them.

A selector with more in it than any rule takes is left out, as one is that the API server would not accept.
"""

from __future__ import annotations

from berth.contracts import state
from berth.contracts.kube import LabelSelector, ReplicaSet, ReplicationController, StatefulSet
from berth.rules.reading.metadata import identity_of
from berth.rules.selectors import EXPRESSIONS_MAX, VALUES_MAX


def replication_controller_of(item: ReplicationController, version: int) -> state.ReplicationController:
    """v1 ReplicationController."""
    namespace, name = identity_of(item.metadata, [])
    selector = item.spec.selector or {}
    return state.ReplicationController(
        namespace=namespace, name=name, version=version, selector=selector if len(selector) <= EXPRESSIONS_MAX else {}
    )


def replica_set_of(item: ReplicaSet, version: int) -> state.ReplicaSet:
    """apps/v1 ReplicaSet."""
    namespace, name = identity_of(item.metadata, [])
    return state.ReplicaSet(namespace=namespace, name=name, version=version, selector=_bounded(item.spec.selector))


def stateful_set_of(item: StatefulSet, version: int) -> state.StatefulSet:
    """apps/v1 StatefulSet."""
    namespace, name = identity_of(item.metadata, [])
    return state.StatefulSet(namespace=namespace, name=name, version=version, selector=_bounded(item.spec.selector))


def _bounded(selector: LabelSelector | None) -> LabelSelector | None:
    if selector is None:
        return None
    expressions = selector.match_expressions or ()
    size = len(selector.match_labels or ()) + len(expressions)
    fits = size <= EXPRESSIONS_MAX and sum(len(each.values or ()) for each in expressions) <= VALUES_MAX
    return selector if fits else None
