"""What other services may ask to have written: kinds, annotations of nodes, resources of nodes."""

from __future__ import annotations

from typing import NamedTuple

from berth.contracts import names
from berth.kube import resources
from berth.kube.resources import Resource
from berth.rules.webhooks import MUTATING, VALIDATING

WRITABLE = {
    f"{resource.api_version}/{resource.plural}": resource
    for resource in (
        resources.ELASTIC_QUOTAS,
        resources.ELASTIC_QUOTA_PROFILES,
        resources.RESERVATIONS,
        resources.RESERVATION_SCHEDULES,
        resources.POD_GROUPS,
        resources.DEVICES,
        resources.CLUSTER_NETWORK_TOPOLOGIES,
        resources.NODE_METRICS,
        resources.NODE_SLOS,
    )
}
"""Kinds whose objects other services may ask to have patched."""


class Applicable(NamedTuple):
    """A kind whose objects other services may ask to have made, and what it is called.

    `is_shared`: other agents write objects of this kind as well. Those without our label are theirs, and never touched.
    `is_kept`: nobody may ask to have one deleted; it goes with its owner.
    """

    resource: Resource
    kind: str
    is_shared: bool = False
    is_kept: bool = False

    @property
    def is_deletable(self) -> bool:
        """Whether `DeleteObject` may name one."""
        return self.is_shared and not self.is_kept and not self.resource.namespaced


RESERVATIONS_API = "scheduling.koordinator.sh/v1alpha1/reservations"
POD_GROUPS_API = f"{resources.POD_GROUPS.api_version}/{resources.POD_GROUPS.plural}"
APPLICABLE = {
    f"{each.resource.api_version}/{each.resource.plural}": each
    for each in (
        Applicable(resources.NODE_SLOS, "NodeSLO"),
        Applicable(resources.NODE_METRICS, "NodeMetric", is_shared=True, is_kept=True),
        Applicable(resources.ELASTIC_QUOTAS, "ElasticQuota", is_shared=True),
        Applicable(resources.DEVICES, "Device", is_shared=True),
        Applicable(resources.RESERVATIONS, "Reservation", is_shared=True, is_kept=True),
        Applicable(resources.NODE_RESOURCE_TOPOLOGIES, "NodeResourceTopology", is_shared=True),
    )
}
"""Kinds whose objects other services may ask to have made."""
ANNOTATABLE = frozenset(
    {
        names.ANNOTATION_CPU_NORMALIZATION_RATIO,
        names.ANNOTATION_AMPLIFICATION_RATIO,
        names.ANNOTATION_THIRD_PARTY_ALLOCATIONS,
    }
)
"""Annotations of nodes that other services may ask to have written."""
OFFERED = frozenset(names.LENT)
"""Resources of nodes that are lent."""
OFFERED_BESIDE = frozenset({names.ANNOTATION_ORIGIN_ALLOCATABLE})
"""Annotations that are written together with them."""
WEBHOOKS = {MUTATING: resources.MUTATING_WEBHOOKS, VALIDATING: resources.VALIDATING_WEBHOOKS}
"""Berth's own configurations, by their kind."""
