"""Settings of cluster-watcher, from the environment."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from berth.contracts.inventory import NPU_TEMPLATES
from berth.contracts.slo import CONFIG_MAP
from berth.kube.settings import KubeSettings
from berth.runtime.kube_client_settings import KubeClientSettings
from berth.runtime.settings import Seconds
from berth.runtime.shared_settings import LEASE_TTL_S, LIST_PAGE, LeaseTtl, ListPage

CONFIG_MAPS_MAX = 64


class Settings(KubeClientSettings, frozen=True, kw_only=True):
    """Settings of cluster-watcher beside the common ones."""

    config_maps: Annotated[
        tuple[str, ...], Meta(max_length=CONFIG_MAPS_MAX, description="ConfigMaps to follow, as namespace/name")
    ] = (CONFIG_MAP, NPU_TEMPLATES)
    watch_pause_s: Annotated[
        float, Meta(ge=0, le=1, description="longest pause after a read of a watch, so that a burst is handled at once")
    ] = 0.02
    list_page: ListPage = LIST_PAGE
    lease_ttl_s: LeaseTtl = LEASE_TTL_S
    relist_pause_s: Annotated[
        Seconds, Meta(description="shortest time between two lists of a kind that another writer caused")
    ] = 5.0

    def __post_init__(self) -> None:
        for each in self.config_maps:
            namespace, slash, name = each.partition("/")
            if not (namespace and slash and name) or "/" in name:
                raise ValueError(f"BERTH_CONFIG_MAPS: {each[:80]!r} is not of the form namespace/name")

    def kube(self) -> KubeSettings:
        """How to reach the API server."""
        return self.client_of("cluster-watcher", connections=16, watch_pause_s=self.watch_pause_s)
