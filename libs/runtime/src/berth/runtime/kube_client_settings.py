"""Settings of services that talk to the API server.

A module of its own: those that don't are installed without berth.kube.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from berth.kube.settings import KubeSettings
from berth.runtime.settings import ServiceSettings


class KubeClientSettings(ServiceSettings, frozen=True, kw_only=True):
    """Of a service that talks to the API server."""

    kube_url: Annotated[str, Meta(description="API server; empty: kubeconfig, or the pod's service account")] = ""
    kube_token_file: Annotated[str, Meta(description="file with the bearer token for kube_url")] = ""
    kube_ca_file: Annotated[str, Meta(description="certificates to trust for kube_url")] = ""
    kubeconfig: Annotated[str, Meta(description="path of a kubeconfig")] = ""
    kube_context: Annotated[str, Meta(description="context of the kubeconfig; empty: its current one")] = ""

    def client_of(self, service: str, *, connections: int, watch_pause_s: float = 0.0) -> KubeSettings:
        """How this service reaches the API server."""
        return KubeSettings(
            url=self.kube_url,
            token_file=self.kube_token_file,
            ca_file=self.kube_ca_file,
            kubeconfig=self.kubeconfig,
            context=self.kube_context,
            connections=connections,
            watch_pause_s=watch_pause_s,
            user_agent=f"berth-{service}",
        )
