"""The knobs of yarn-operator."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from berth.runtime import Seconds, ServiceSettings
from berth.runtime.shared_settings import LEASE_TTL_S, LeaseTtl
from berth.yarn_operator.core.pods import DEFAULT_CLUSTER

SERVICE: Final = "yarn-operator"


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """Read from the environment."""

    yarn_clusters: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            max_length=64,
            description="YARN clusters as NAME=URL, with one URL for each ResourceManager, separated by '|'; "
            "a NodeManager that names no cluster belongs to __default_yarn_cluster__",
        ),
    ] = (f"{DEFAULT_CLUSTER}=http://resourcemanager:8088",)
    yarn_user: Annotated[str, Meta(max_length=100, description="user.name of the requests; has to be an admin")] = (
        "yarn"
    )
    yarn_percent: Annotated[
        int, Meta(ge=0, le=100, description="YARN's part of what neither side uses of a node, in percent")
    ] = 50
    yarn_over_commit_timeout_s: Annotated[
        int,
        Meta(
            ge=-1, le=86_400, description="after how long YARN ends what is over a grant that became smaller; -1: never"
        ),
    ] = -1
    yarn_interval_s: Annotated[Seconds, Meta(description="pause between looks at the ResourceManagers")] = 1.0
    yarn_timeout_s: Annotated[Seconds, Meta(description="how long a ResourceManager may take to answer")] = 5.0
    lease_ttl_s: LeaseTtl = LEASE_TTL_S

    def __post_init__(self) -> None:
        if len(self.clusters()) < len(self.yarn_clusters):
            raise ValueError("BERTH_YARN_CLUSTERS: names a cluster twice")

    def clusters(self) -> dict[str, list[str]]:
        """The URLs of the ResourceManagers by the name of their cluster. Raises ValueError."""
        found = {}
        for each in self.yarn_clusters:
            name, sign, urls = each.partition("=")
            listed = [url for url in urls.split("|") if url]
            if not name or not sign or not listed or any(not url.startswith(("http://", "https://")) for url in listed):
                raise ValueError(f"BERTH_YARN_CLUSTERS: {each[:80]!r} is not of the form NAME=http://HOST:PORT|...")
            found[name] = listed
        return found
