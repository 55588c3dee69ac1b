"""The knobs of slo-manager."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from berth.runtime import ServiceSettings
from berth.runtime.shared_settings import (
    LEASE_TTL_S,
    SLO_CONFIG_MAP,
    LeaseTtl,
    ReadPause,
    SloConfigMap,
    Window,
    read_config_map,
)

SERVICE: Final = "slo-manager"


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """Read from the environment."""

    nats_read_pause_s: ReadPause = 0.02
    slo_config_map: SloConfigMap = SLO_CONFIG_MAP
    slo_sync_objects: Annotated[
        bool, Meta(description="keep the NodeSLO object of each node; off where another manager owns them")
    ] = True
    slo_sync_nodes: Annotated[
        bool, Meta(description="keep the ratios that nodes are annotated with; off where another manager does")
    ] = True
    slo_sync_offers: Annotated[
        bool,
        Meta(description="have nodes show what they lend; off where another manager writes batch and mid resources"),
    ] = True
    slo_mirror_metrics: Annotated[
        bool, Meta(description="have NodeMetric objects show what the agents of nodes report; never over a koordlet's")
    ] = False
    slo_mid_formula: Annotated[
        Literal["v1.6", "v1.8"],
        Meta(description="how mid resources are worked out: as Koordinator 1.6 caps them, or as 1.8 does"),
    ] = "v1.6"
    slo_evictions_per_hour: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000,
            description="pods of one workload that may be evicted for their nodes' sake within an hour; 0: none",
        ),
    ] = 20
    window_s: Window = 0.05
    lease_ttl_s: LeaseTtl = LEASE_TTL_S

    def __post_init__(self) -> None:
        read_config_map(self.slo_config_map)

    def config_map(self) -> tuple[str, str]:
        """Namespace and name of the ConfigMap."""
        return read_config_map(self.slo_config_map)
