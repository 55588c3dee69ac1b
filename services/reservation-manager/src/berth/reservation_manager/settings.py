"""Settings of reservation-manager, from the environment."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from berth.runtime.settings import ServiceSettings
from berth.runtime.shared_settings import LEASE_TTL_S, OURS, LeaseTtl, ReadPause, SchedulerNames, Window

SERVICE: Final = "reservation-manager"


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """Settings of reservation-manager beside the common ones."""

    nats_read_pause_s: ReadPause = 0.01
    scheduler_names: SchedulerNames = OURS
    window_s: Window = 0.02
    lease_ttl_s: LeaseTtl = LEASE_TTL_S
    status_retry_s: Annotated[
        float, Meta(gt=0, le=600, description="how long an object may take to show a status before it is asked again")
    ] = 15.0
    collect_after_s: Annotated[
        float,
        Meta(ge=0, le=31_536_000, description="a Reservation that has finished is deleted after so long; 0: never"),
    ] = 86_400.0
