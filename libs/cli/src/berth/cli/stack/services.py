"""Which services there are, and what each needs to be started."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

SIMULATED_API = "simulated-api"


class ServiceSpec(NamedTuple):
    """A service: its name everywhere, and whether it talks to the API server."""

    name: str
    needs_kube: bool = False
    environment: Mapping[str, str] = MappingProxyType({})

    @property
    def module(self) -> str:
        """The module to run."""
        return "berth." + self.name.replace("-", "_")


SERVICES = (
    ServiceSpec("cluster-watcher", needs_kube=True),
    ServiceSpec("cluster-writer", needs_kube=True),
    ServiceSpec("device-inventory"),
    ServiceSpec("quota-manager"),
    ServiceSpec("reservation-manager"),
    ServiceSpec("placement-solver"),
    ServiceSpec("node-qos-enforcer", environment=MappingProxyType({"BERTH_NODE_NAME": "this-machine"})),
)
