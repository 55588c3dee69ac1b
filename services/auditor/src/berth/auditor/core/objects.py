"""What one look finds on the API server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from berth.contracts import kube


class Lists(NamedTuple):
    """The objects of one look. Pods that hold nothing (ended, or another scheduler's and unbound) are left out."""

    pods: list[kube.Pod]
    nodes: list[kube.Node]
    devices: list[kube.Device]
    topologies: list[kube.NodeResourceTopology]
    quotas: list[kube.ElasticQuota]
    pod_groups: list[kube.PodGroup]
    reservations: list[kube.Reservation]
    metrics: list[kube.NodeMetric]
    unreadable: list[str]
    webhooks: Sequence[kube.WebhookConfiguration] = ()
    """What pods are changed by: Berth's configuration, if it is there."""
    profiles: Sequence[kube.ClusterColocationProfile] = ()
    namespaces: Sequence[kube.AnyObject] = ()
    """Profiles and namespaces only where the configuration has entries."""
