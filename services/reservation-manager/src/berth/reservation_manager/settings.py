"""Settings of reservation-manager, from the environment."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from berth.contracts import names
from berth.runtime.settings import ServiceSettings

SERVICE: Final = "reservation-manager"


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """What reservation-manager can be told beside the common settings."""

    nats_read_pause_s: Annotated[
        float, Meta(ge=0, le=1, description="pause after each read from the bus, to wake up less often under load")
    ] = 0.01

    scheduler_names: Annotated[
        tuple[str, ...], Meta(min_length=1, description="scheduler names that Berth answers to")
    ] = (names.SCHEDULER_NAME,)
    window_s: Annotated[float, Meta(ge=0, le=5, description="how long changes are gathered before deciding")] = 0.02
    lease_ttl_s: Annotated[int, Meta(ge=2, le=60, description="how long a silent replica counts as active")] = 6
    status_retry_s: Annotated[
        float, Meta(gt=0, le=600, description="how long an object may take to show a status before it is asked again")
    ] = 15.0
