"""Pods taken together: a gang that starts together or not at all (PodGroup), a team with one quota (ElasticQuota), the
nodes of a tree of quotas (ElasticQuotaProfile)."""

from __future__ import annotations

from berth.contracts.kube.meta import Meta, Quantity, View
from berth.contracts.kube.selectors import LabelSelector


class PodGroupSpec(View, frozen=True, kw_only=True):
    """spec of a PodGroup."""

    min_member: int = 0
    schedule_timeout_seconds: int | None = None
    min_resources: dict[str, Quantity] | None = None


class PodGroupStatus(View, frozen=True, kw_only=True):
    """status of a PodGroup."""

    phase: str = ""
    occupied_by: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str | None = None


class PodGroup(View, frozen=True, kw_only=True):
    """scheduling.sigs.k8s.io/v1alpha1 PodGroup."""

    metadata: Meta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class ElasticQuotaSpec(View, frozen=True, kw_only=True):
    """spec of an ElasticQuota."""

    min: dict[str, Quantity] | None = None
    max: dict[str, Quantity] | None = None


class ElasticQuotaStatus(View, frozen=True, kw_only=True):
    """status of an ElasticQuota."""

    used: dict[str, Quantity] | None = None


class ElasticQuota(View, frozen=True, kw_only=True):
    """scheduling.sigs.k8s.io/v1alpha1 ElasticQuota."""

    metadata: Meta
    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()


class ElasticQuotaProfileSpec(View, frozen=True, kw_only=True):
    """spec of an ElasticQuotaProfile."""

    quota_name: str = ""
    quota_labels: dict[str, str] | None = None
    resource_ratio: str | None = None
    node_selector: LabelSelector | None = None


class ElasticQuotaProfile(View, frozen=True, kw_only=True):
    """quota.koordinator.sh/v1alpha1 ElasticQuotaProfile."""

    metadata: Meta
    spec: ElasticQuotaProfileSpec = ElasticQuotaProfileSpec()
