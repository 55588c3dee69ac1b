"""The knobs of auditor."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from berth.kube.settings import KubeSettings
from berth.runtime.kube_client_settings import KubeClientSettings
from berth.runtime.settings import Seconds
from berth.runtime.shared_settings import (
    LEASE_TTL_S,
    LIST_PAGE,
    OURS,
    LeaseTtl,
    ListPage,
    ReadPause,
    SchedulerNames,
)

SERVICE: Final = "auditor"


class Settings(KubeClientSettings, frozen=True, kw_only=True):
    """Read from the environment."""

    nats_read_pause_s: ReadPause = 0.05
    scheduler_names: SchedulerNames = OURS
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
    list_page: ListPage = LIST_PAGE
    lease_ttl_s: LeaseTtl = LEASE_TTL_S

    def kube(self) -> KubeSettings:
        """How to reach the API server."""
        return self.client_of("auditor", connections=2)
