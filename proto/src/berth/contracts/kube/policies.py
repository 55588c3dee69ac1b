"""Kinds of Kubernetes that are never placed, but say how pods are treated: priorities, budgets, labels, settings."""

from __future__ import annotations

from typing import Any

from berth.contracts.kube.meta import Meta, View
from berth.contracts.kube.selectors import LabelSelector


class Namespace(View, frozen=True, kw_only=True):
    """v1 Namespace."""

    metadata: Meta


class ClusterColocationProfile(View, frozen=True, kw_only=True):
    """config.koordinator.sh/v1alpha1 ClusterColocationProfile; its spec is kept as read."""

    metadata: Meta
    spec: dict[str, Any] | None = None


class WebhookConfiguration(View, frozen=True, kw_only=True):
    """admissionregistration.k8s.io/v1 Mutating- or ValidatingWebhookConfiguration; its entries are kept as read."""

    metadata: Meta
    webhooks: list[dict[str, Any]] | None = None


class ConfigMap(View, frozen=True, kw_only=True):
    """v1 ConfigMap."""

    metadata: Meta
    data: dict[str, str] | None = None


class PriorityClass(View, frozen=True, kw_only=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: Meta
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class DisruptionBudgetSpec(View, frozen=True, kw_only=True):
    """spec of a PodDisruptionBudget."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class DisruptionBudgetStatus(View, frozen=True, kw_only=True):
    """status of a PodDisruptionBudget."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, Any] | None = None


class PodDisruptionBudget(View, frozen=True, kw_only=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: Meta
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()
