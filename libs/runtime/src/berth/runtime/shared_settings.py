"""Settings that several services have: each is described, and limited, once."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from berth.contracts.names import SCHEDULER_NAME
from berth.contracts.slo import CONFIG_MAP

LeaseTtl: TypeAlias = Annotated[int, Meta(ge=2, le=300, description="time to live of the lease between replicas")]
Window: TypeAlias = Annotated[float, Meta(ge=0, le=60, description="how long news is gathered before it is decided on")]
ReadPause: TypeAlias = Annotated[
    float,
    Meta(ge=0, le=1, description="pause after a read from the bus for each message, to wake up less often under load"),
]
ListPage: TypeAlias = Annotated[int, Meta(ge=1, le=5000, description="objects per page of a list")]
SchedulerNames: TypeAlias = Annotated[
    tuple[str, ...], Meta(min_length=1, max_length=64, description="scheduler names that Berth answers to")
]
HandOff: TypeAlias = Annotated[
    tuple[str, ...],
    Meta(
        max_length=64, description="vendors whose device plugins are handed what was chosen; the same for every service"
    ),
]
WebhookUrl: TypeAlias = Annotated[
    str,
    Meta(
        max_length=300,
        pattern=r"^(https://[A-Za-z0-9.\-]+(:[0-9]+)?)?$",
        description="https://host:port at which the API server reaches admission-webhook; empty: by its Service",
    ),
]
SloConfigMap: TypeAlias = Annotated[
    str, Meta(description="ConfigMap of the strategies, as namespace/name; cluster-watcher has to follow it")
]
SLO_CONFIG_MAP: SloConfigMap = CONFIG_MAP
HAND_OFF: HandOff = ("huawei", "cambricon", "metax")
OURS: SchedulerNames = (SCHEDULER_NAME,)
LEASE_TTL_S = 6
LIST_PAGE = 500


def read_config_map(text: str) -> tuple[str, str]:
    """Namespace and name of `SloConfigMap`. Raises ValueError where it is none."""
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ValueError(f"BERTH_SLO_CONFIG_MAP: {text[:80]!r} is not of the form namespace/name")
    return namespace, name
