"""Settings that several services have: each is described, and limited, once."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from berth.contracts.names import SCHEDULER_NAME

LeaseTtl: TypeAlias = Annotated[int, Meta(ge=2, le=300, description="time to live of the lease between replicas")]
Window: TypeAlias = Annotated[float, Meta(ge=0, le=60, description="how long news is gathered before it is decided on")]
ReadPause: TypeAlias = Annotated[
    float, Meta(ge=0, le=1, description="pause after each read from the bus, to wake up less often under load")
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
HAND_OFF: HandOff = ("huawei", "cambricon", "metax")
OURS: SchedulerNames = (SCHEDULER_NAME,)
LEASE_TTL_S = 6
LIST_PAGE = 500
