"""Settings of the placement solver, from the environment."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from berth.runtime.settings import ServiceSettings
from berth.runtime.shared_settings import HAND_OFF, OURS, HandOff, SchedulerNames


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """Settings of placement-solver beside the common ones."""

    scheduler_names: SchedulerNames = OURS
    scheduler_config_file: Annotated[str, Meta(description="file with a KubeSchedulerConfiguration; empty: none")] = ""
    scheduler_config_map: Annotated[
        str,
        Meta(description="ConfigMap of a KubeSchedulerConfiguration, as namespace/name, which cluster-watcher follows"),
    ] = ""
    batch_window_s: Annotated[
        float, Meta(ge=0, le=1, description="how long a batch waits at most for more pods, while some are coming in")
    ] = 0.006
    batch_gap_s: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="time from one plan to the next while many pods come, but less than a full batch waits",
        ),
    ] = 0.04
    batch_pods_max: Annotated[int, Meta(ge=1, le=400, description="most pods in one plan, gangs aside")] = 80
    batch_messages_max: Annotated[
        int, Meta(ge=8, le=1000, description="most messages in one batch of the ledger; a larger plan goes in stages")
    ] = 1000
    class_rows_bytes_max: Annotated[
        int, Meta(ge=1 << 20, description="most memory in bytes for what classes of pods keep for each node, in all")
    ] = 512 << 20
    optimiser_budget_s: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="time for the optimiser on a contended batch, or on who leaves for a gang; 0 switches it off",
        ),
    ] = 2.0
    bounds: Annotated[
        bool,
        Meta(description="whether the optimiser is asked how near to the best batches are of which not all are placed"),
    ] = True
    estimates_every_s: Annotated[
        float,
        Meta(ge=0, le=3600, description="how often it is worked out when who waits will start, at most; 0: never"),
    ] = 30.0
    hand_off: HandOff = HAND_OFF
    preemption: Annotated[
        bool, Meta(description="whether pods of lower priority are made to leave for one that no node takes")
    ] = True
    tell_origins: Annotated[
        bool,
        Meta(description="whether each plan says in the ledger what it was made from, so that it can be made again"),
    ] = True
    prices_from: Annotated[
        int,
        Meta(ge=1, description="how many pods with GPUs have to have come before the price maker is asked"),
    ] = 1500
    report_after_s: Annotated[
        float, Meta(ge=0, le=600, description="how long a gang may gather before its pods are reported as waiting")
    ] = 2.0

    def __post_init__(self) -> None:
        if self.scheduler_config_file and self.scheduler_config_map:
            raise ValueError("BERTH_SCHEDULER_CONFIG_FILE and BERTH_SCHEDULER_CONFIG_MAP: only one of them can be set")
        namespace, slash, name = self.scheduler_config_map.partition("/")
        if self.scheduler_config_map and (not (namespace and slash and name) or "/" in name):
            shown = self.scheduler_config_map[:80]
            raise ValueError(f"BERTH_SCHEDULER_CONFIG_MAP: {shown!r} is not of the form namespace/name")

    def config_map(self) -> tuple[str, str] | None:
        """Namespace and name of the ConfigMap with the configuration."""
        namespace, _, name = self.scheduler_config_map.partition("/")
        return (namespace, name) if name else None
