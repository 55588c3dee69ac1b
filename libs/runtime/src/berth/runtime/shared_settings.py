"""Settings that several services have: each is described, and limited, once."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from berth.contracts.names import SCHEDULER_NAME
from berth.kube.settings import KubeSettings
from berth.runtime.settings import ServiceSettings

LeaseTtl: TypeAlias = Annotated[int, Meta(ge=2, le=300, description="time to live of the lease between replicas")]
Window: TypeAlias = Annotated[float, Meta(ge=0, le=60, description="how long news is gathered before it is decided on")]
ReadPause: TypeAlias = Annotated[
    float, Meta(ge=0, le=1, description="pause after each read from the bus, to wake up less often under load")
]
ListPage: TypeAlias = Annotated[int, Meta(ge=1, le=5000, description="objects per page of a list")]
SchedulerNames: TypeAlias = Annotated[
    tuple[str, ...], Meta(min_length=1, max_length=64, description="scheduler names that Berth answers to")
]
OURS: SchedulerNames = (SCHEDULER_NAME,)
LEASE_TTL_S = 6
LIST_PAGE = 500


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
