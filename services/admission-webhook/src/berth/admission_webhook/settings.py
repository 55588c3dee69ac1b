"""The knobs of admission-webhook."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta

from berth.rules.admission.gates import Gates, read_gates
from berth.rules.webhooks import HOST
from berth.runtime import ServiceSettings
from berth.runtime.settings import Port
from berth.runtime.shared_settings import (
    LEASE_TTL_S,
    OURS,
    SLO_CONFIG_MAP,
    LeaseTtl,
    SchedulerNames,
    SloConfigMap,
    WebhookUrl,
    read_config_map,
)

SERVICE: Final = "admission-webhook"


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """Read from the environment."""

    scheduler_names: SchedulerNames = OURS
    webhook_url: WebhookUrl = ""
    webhook_port: Annotated[Port, Meta(description="where the API server's requests are answered, by TLS")] = 8443
    admission_gates: Annotated[
        str,
        Meta(max_length=2000, description="feature gates of admission, `A=true,B=false`, over Koordinator's defaults"),
    ] = ""
    slo_config_map: SloConfigMap = SLO_CONFIG_MAP
    certificate_days: Annotated[
        float, Meta(gt=0, le=365, description="life of a replica's certificate; a successor is made after two thirds")
    ] = 30.0
    lease_ttl_s: LeaseTtl = LEASE_TTL_S

    def __post_init__(self) -> None:
        read_config_map(self.slo_config_map)
        _, problems = read_gates(self.admission_gates)
        if problems:
            raise ValueError(f"BERTH_ADMISSION_GATES: {problems[0].field!r} {problems[0].message}")

    @property
    def gates(self) -> Gates:
        """Which features are on."""
        return read_gates(self.admission_gates)[0]

    @property
    def host(self) -> str:
        """What the API server calls a replica, and checks its certificate for."""
        return urlsplit(self.webhook_url).hostname or HOST
