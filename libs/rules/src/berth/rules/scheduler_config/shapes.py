"""The shape of the document. A field that is not here is refused by name, as in kube-scheduler."""

from __future__ import annotations

from typing import Any, Final, Self

import msgspec

from berth.contracts.base import Integer

GROUP: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"


class Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part in which a field that nobody knows is an error."""


class Args(Strict, frozen=True, kw_only=True):
    """What the arguments of every plugin may have."""

    api_version: str = GROUP
    kind: str = ""

    def completed(self) -> Self:
        """With what holds where they say nothing, if that depends on what else they say."""
        return self


class PluginRef(Strict, frozen=True, kw_only=True):
    """A plugin in a list."""

    name: str
    weight: Integer | None = None


class PluginSet(Strict, frozen=True, kw_only=True):
    """What is on and off at an extension point."""

    enabled: list[PluginRef] | None = None
    disabled: list[PluginRef] | None = None


class Plugins(Strict, frozen=True, kw_only=True):
    """Sets by extension point; `multi_point` is for all of them."""

    multi_point: PluginSet | None = None
    pre_enqueue: PluginSet | None = None
    queue_sort: PluginSet | None = None
    pre_filter: PluginSet | None = None
    filter: PluginSet | None = None
    post_filter: PluginSet | None = None
    pre_score: PluginSet | None = None
    score: PluginSet | None = None
    reserve: PluginSet | None = None
    permit: PluginSet | None = None
    pre_bind: PluginSet | None = None
    bind: PluginSet | None = None
    post_bind: PluginSet | None = None


class PluginConfig(Strict, frozen=True, kw_only=True):
    """The arguments of a plugin; which there are, its name decides."""

    name: str
    args: dict[str, Any] | None = None


class ProfileShape(Strict, frozen=True, kw_only=True):
    """profiles[]."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Integer | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] | None = None


class LeaderElection(Strict, frozen=True, kw_only=True):
    """leaderElection: kube-scheduler's own; Berth's solvers work side by side."""

    leader_elect: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class ClientConnection(Strict, frozen=True, kw_only=True):
    """clientConnection: kube-scheduler's own; Berth's services are told by their settings."""

    kubeconfig: str | None = None
    accept_content_types: str | None = None
    content_type: str | None = None
    qps: float | None = None
    burst: Integer | None = None


class Document(Strict, frozen=True, kw_only=True):
    """KubeSchedulerConfiguration."""

    api_version: str = ""
    kind: str = ""
    parallelism: Integer | None = None
    leader_election: LeaderElection | None = None
    client_connection: ClientConnection | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Integer | None = None
    pod_initial_backoff_seconds: Integer | None = None
    pod_max_backoff_seconds: Integer | None = None
    profiles: list[ProfileShape] | None = None
    extenders: list[Any] | None = None
    delay_cache_until_active: bool | None = None
