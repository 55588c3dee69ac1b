"""Settings of cluster-writer, from the environment."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from berth.contracts import names
from berth.kube.settings import KubeSettings
from berth.runtime.settings import ServiceSettings


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """What cluster-writer can be told beside the common settings."""

    scheduler_names: Annotated[
        tuple[str, ...], Meta(min_length=1, description="scheduler names that Berth answers to")
    ] = (names.SCHEDULER_NAME,)
    kube_url: Annotated[str, Meta(description="API server; empty: kubeconfig, or the pod's service account")] = ""
    kube_token_file: Annotated[str, Meta(description="file with the bearer token for kube_url")] = ""
    kube_ca_file: Annotated[str, Meta(description="certificates to trust for kube_url")] = ""
    kubeconfig: Annotated[str, Meta(description="path of a kubeconfig")] = ""
    kube_context: Annotated[str, Meta(description="context of the kubeconfig; empty: its current one")] = ""
    lease_namespace: Annotated[str, Meta(min_length=1, description="namespace of the Lease")] = "berth-system"
    lease_name: Annotated[str, Meta(min_length=1, description="name of the Lease")] = "cluster-writer"
    bind_connections: Annotated[int, Meta(ge=1, le=1024, description="binds under way at once")] = 48
    events_per_s: Annotated[
        float, Meta(ge=0, le=1000, description="Kubernetes Events a second at most; 0 sends none")
    ] = 50.0

    def kube(self) -> KubeSettings:
        """How to reach the API server."""
        return KubeSettings(
            url=self.kube_url,
            token_file=self.kube_token_file,
            ca_file=self.kube_ca_file,
            kubeconfig=self.kubeconfig,
            context=self.kube_context,
            connections=self.bind_connections + 16,
            user_agent="berth-cluster-writer",
        )
