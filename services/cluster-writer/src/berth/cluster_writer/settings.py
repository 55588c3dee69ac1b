"""Settings of cluster-writer, from the environment."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from berth.kube.settings import KubeSettings
from berth.runtime.kube_client_settings import KubeClientSettings
from berth.runtime.shared_settings import HAND_OFF, OURS, HandOff, SchedulerNames, WebhookUrl


class Settings(KubeClientSettings, frozen=True, kw_only=True):
    """Settings of cluster-writer beside the common ones."""

    scheduler_names: SchedulerNames = OURS
    lease_namespace: Annotated[str, Meta(min_length=1, description="namespace of the Lease")] = "berth-system"
    lease_name: Annotated[str, Meta(min_length=1, description="name of the Lease")] = "cluster-writer"
    bind_connections: Annotated[int, Meta(ge=1, le=1024, description="binds under way at once")] = 48
    volume_timeout_s: Annotated[
        float,
        Meta(gt=0, le=86400, description="seconds that a bind waits for the pod's volumes, before it is given up"),
    ] = 600.0
    hand_off: HandOff = HAND_OFF
    webhook_url: WebhookUrl = ""
    events_per_s: Annotated[
        float, Meta(ge=0, le=1000, description="Kubernetes Events a second at most; 0 sends none")
    ] = 50.0

    def kube(self) -> KubeSettings:
        """How to reach the API server."""
        return self.client_of("cluster-writer", connections=self.bind_connections + 16)
