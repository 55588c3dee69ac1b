"""The knobs of device-inventory."""

from typing import Annotated, Final

from msgspec import Meta

from berth.runtime import Seconds, ServiceSettings
from berth.runtime.shared_settings import LEASE_TTL_S, LeaseTtl, ReadPause, Window

SERVICE: Final = "device-inventory"


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """Read from the environment."""

    nats_read_pause_s: ReadPause = 0.02
    window_s: Window = 0.01
    lease_ttl_s: LeaseTtl = LEASE_TTL_S
    device_sync_nodes: Annotated[
        bool, Meta(description="write device sums and labels to nodes; off where another manager owns them")
    ] = True
    device_sync_objects: Annotated[
        bool, Meta(description="make Device objects of what node agents report; off where another manager makes them")
    ] = True
    device_publish_shared: Annotated[
        bool,
        Meta(
            description="EnableSyncGPUSharedResource: publish koordinator.sh/gpu.shared, which admission adds to pods"
        ),
    ] = True
    device_diff_threshold: Annotated[
        float,
        Meta(ge=0, le=1, description="resourceDiffThreshold: a sum is written when it moved by more than this share"),
    ] = 0.0
    device_retry_s: Annotated[
        Seconds, Meta(description="after this long a node patch that had no effect is asked for again")
    ] = 30.0
