"""Which services there are, and what each needs to be started."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from berth.contracts import names

SIMULATED_API = "simulated-api"
NODE_AGENT = "node-qos-enforcer"
WEBHOOK = "admission-webhook"
RECORDER = "recorder"
OUR_PODS = MappingProxyType({"BERTH_SCHEDULER_NAMES": names.SCHEDULER_NAME})
"""For a simulated cluster whose pods we make ourselves, whatever the user's environment says of another one."""


class ServiceSpec(NamedTuple):
    """A service: its name everywhere, and whether it talks to the API server.

    `places_pods`: without it no pod is placed, so it is started before the others.
    One that is `per_node` runs on every node, or on none: placement does without it. One that is `on_request` is
    started where somebody asks for it alone: the API server has to reach it, or it fills a folder.
    """

    name: str
    needs_kube: bool = False
    places_pods: bool = False
    per_node: bool = False
    on_request: bool = False
    environment: Mapping[str, str] = MappingProxyType({})

    @property
    def module(self) -> str:
        """The module to run."""
        return "berth." + self.name.replace("-", "_")


SERVICES = (
    ServiceSpec("cluster-watcher", needs_kube=True, places_pods=True),
    ServiceSpec("cluster-writer", needs_kube=True, places_pods=True),
    ServiceSpec("device-inventory"),
    ServiceSpec("quota-manager"),
    ServiceSpec("reservation-manager"),
    ServiceSpec("slo-manager"),
    ServiceSpec("placement-solver", places_pods=True),
    ServiceSpec("auditor", needs_kube=True),
    ServiceSpec(WEBHOOK, on_request=True),
    ServiceSpec(RECORDER, on_request=True),
    ServiceSpec(NODE_AGENT, per_node=True, environment=MappingProxyType({"BERTH_NODE_NAME": "this-machine"})),
)
"""What a run on this machine starts."""

IN_CLUSTERS = (ServiceSpec("node-authenticator", needs_kube=True), ServiceSpec("yarn-operator"))
"""What only a cluster has: on one machine the one agent is a user of the bus."""
