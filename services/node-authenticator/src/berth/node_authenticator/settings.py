"""Settings of node-authenticator, from the environment."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from berth.kube.settings import KubeSettings
from berth.runtime.kube_client_settings import KubeClientSettings

SERVICE: Final = "node-authenticator"


class Settings(KubeClientSettings, frozen=True, kw_only=True):
    """Settings of node-authenticator beside the common ones."""

    signing_seed_file: Annotated[
        str, Meta(min_length=1, description="file with the nkey seed of the issuer that the bus's configuration names")
    ] = "/run/berth/signing-seed"
    token_audience: Annotated[
        str, Meta(min_length=1, max_length=253, description="audience that agents' tokens have to be for")
    ] = "bus.berth.sh"
    agent_account: Annotated[
        str, Meta(pattern=r"^[^/]+/[^/]+$", description="namespace/name of the agents' ServiceAccount")
    ] = "berth-nodes/node-qos-enforcer"
    session_s: Annotated[
        int, Meta(ge=60, le=86_400, description="longest life of an agent's connection; a new one needs a valid token")
    ] = 3600

    def kube(self) -> KubeSettings:
        """How to reach the API server."""
        return self.client_of(SERVICE, connections=16)
