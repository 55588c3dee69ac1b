"""The knobs of auditor."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from berth.contracts.names import SCHEDULER_NAME
from berth.kube.settings import KubeSettings
from berth.runtime.settings import Seconds, ServiceSettings

SERVICE: Final = "auditor"


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """Read from the environment."""

    nats_read_pause_s: Annotated[
        float, Meta(ge=0, le=1, description="pause after each read from the bus, to wake up less often under load")
    ] = 0.05

    kube_url: Annotated[str, Meta(description="API server; empty: kubeconfig, or the pod's service account")] = ""
    kube_token_file: Annotated[str, Meta(description="file with the bearer token for kube_url")] = ""
    kube_ca_file: Annotated[str, Meta(description="certificates to trust for kube_url")] = ""
    kubeconfig: Annotated[str, Meta(description="path of a kubeconfig")] = ""
    kube_context: Annotated[str, Meta(description="context of the kubeconfig; empty: its current one")] = ""
    scheduler_names: Annotated[
        tuple[str, ...], Meta(min_length=1, max_length=64, description="scheduler names whose pods are Berth's")
    ] = (SCHEDULER_NAME,)
    audit_interval_s: Annotated[Seconds, Meta(description="pause between two looks at everything")] = 30.0
    audit_confirm_s: Annotated[Seconds, Meta(description="pause before a second look at what the first one found")] = (
        3.0
    )
    audit_settle_s: Annotated[
        Seconds, Meta(description="how long a decision may stay open, or a gang half bound, before it is a difference")
    ] = 60.0
    audit_share: Annotated[
        float, Meta(gt=0, le=1, description="most of a CPU that looks may take; longer looks are further apart")
    ] = 0.02
    audit_patience_s: Annotated[
        float, Meta(ge=0, le=3600, description="how long a look gives way while many decisions are being made")
    ] = 60.0
    audit_objects_max: Annotated[
        int, Meta(ge=1, description="most objects of a kind that a look takes in; with more of them it is given up")
    ] = 100_000
    list_page: Annotated[int, Meta(ge=1, le=5000, description="objects per page of a list")] = 500
    lease_ttl_s: Annotated[int, Meta(ge=2, le=300, description="time to live of the lease between replicas")] = 6

    def kube(self) -> KubeSettings:
        """How to reach the API server."""
        return KubeSettings(
            url=self.kube_url,
            token_file=self.kube_token_file,
            ca_file=self.kube_ca_file,
            kubeconfig=self.kubeconfig,
            context=self.kube_context,
            connections=2,
            user_agent="berth-auditor",
        )
