"""Settings of cluster-watcher, from the environment."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from berth.contracts.slo import CONFIG_MAP
from berth.kube.settings import KubeSettings
from berth.runtime.settings import Seconds, ServiceSettings

CONFIG_MAPS_MAX = 64


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """What cluster-watcher can be told beside the common settings."""

    kube_url: Annotated[str, Meta(description="API server; empty: kubeconfig, or the pod's service account")] = ""
    kube_token_file: Annotated[str, Meta(description="file with the bearer token for kube_url")] = ""
    kube_ca_file: Annotated[str, Meta(description="certificates to trust for kube_url")] = ""
    kubeconfig: Annotated[str, Meta(description="path of a kubeconfig")] = ""
    kube_context: Annotated[str, Meta(description="context of the kubeconfig; empty: its current one")] = ""
    config_maps: Annotated[
        tuple[str, ...], Meta(max_length=CONFIG_MAPS_MAX, description="ConfigMaps to follow, as namespace/name")
    ] = (CONFIG_MAP,)
    watch_pause_s: Annotated[
        float, Meta(ge=0, le=1, description="pause after each read of a watch, so that a burst is handled at once")
    ] = 0.02
    list_page: Annotated[int, Meta(ge=1, le=5000, description="objects per page of a list")] = 500
    lease_ttl_s: Annotated[int, Meta(ge=2, le=300, description="time to live of the lease between replicas")] = 6
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
        return KubeSettings(
            url=self.kube_url,
            token_file=self.kube_token_file,
            ca_file=self.kube_ca_file,
            kubeconfig=self.kubeconfig,
            context=self.kube_context,
            connections=16,
            watch_pause_s=self.watch_pause_s,
            user_agent="berth-cluster-watcher",
        )
