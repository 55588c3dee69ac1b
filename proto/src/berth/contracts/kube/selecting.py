"""Kinds that select pods: Services, and the controllers that own pods. Of each nothing but its selector is read."""

from __future__ import annotations

from berth.contracts.kube.meta import Meta, View
from berth.contracts.kube.selectors import LabelSelector


class LabelsSpec(View, frozen=True, kw_only=True):
    """spec of a Service or a ReplicationController: labels that a pod has to have, all of them."""

    selector: dict[str, str] | None = None


class SelectorSpec(View, frozen=True, kw_only=True):
    """spec of a ReplicaSet or a StatefulSet."""

    selector: LabelSelector | None = None


class Service(View, frozen=True, kw_only=True):
    """v1 Service."""

    metadata: Meta
    spec: LabelsSpec = LabelsSpec()


class ReplicationController(View, frozen=True, kw_only=True):
    """v1 ReplicationController."""

    metadata: Meta
    spec: LabelsSpec = LabelsSpec()


class ReplicaSet(View, frozen=True, kw_only=True):
    """apps/v1 ReplicaSet."""

    metadata: Meta
    spec: SelectorSpec = SelectorSpec()


class StatefulSet(View, frozen=True, kw_only=True):
    """apps/v1 StatefulSet."""

    metadata: Meta
    spec: SelectorSpec = SelectorSpec()
