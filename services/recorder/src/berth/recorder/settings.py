"""The knobs of recorder."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from berth.runtime.settings import Seconds, ServiceSettings
from berth.runtime.shared_settings import LEASE_TTL_S, LeaseTtl

SERVICE: Final = "recorder"


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """Read from the environment."""

    record_folder: Annotated[str, Meta(min_length=1, description="folder of the segments; nothing else is in it")] = (
        "/var/lib/berth/recorder"
    )
    record_bytes_max: Annotated[
        int, Meta(ge=1 << 20, description="most bytes of all segments; the oldest ones are deleted beyond that")
    ] = 1 << 30
    record_every_s: Annotated[Seconds, Meta(description="how long what was read is gathered before it is written")] = (
        1.0
    )
    record_metrics: Annotated[
        bool, Meta(description="whether reports of what nodes really use are recorded, which profiles may look at")
    ] = False
    lease_ttl_s: LeaseTtl = LEASE_TTL_S
