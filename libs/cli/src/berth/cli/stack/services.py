"""Which services there are, and what each needs to be started."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from types import MappingProxyType
from typing import NamedTuple

from berth.contracts import names

SIMULATED_API = "simulated-api"
NODE_AGENT = "node-qos-enforcer"
WEBHOOK = "admission-webhook"
RECORDER = "recorder"
OUR_PODS = MappingProxyType({"BERTH_SCHEDULER_NAMES": names.SCHEDULER_NAME})
"""For a simulated cluster whose pods we make ourselves, whatever the user's environment says of another one."""


FULL_SHARE = 200
"""In thousandths of a core: what those ask for at least for whom every pod waits."""


class ServiceSpec(NamedTuple):
    """A service: its name everywhere, and whether it talks to the API server.

    `places_pods`: without it no pod is placed, so it is started before the others.
    `cpu_milli`: its share of cores that are full, as its manifest asks for; from FULL_SHARE on it is a whole one.
    One that is `per_node` runs on every node, or on none: placement does without it. One that is `on_request` is
    started where somebody asks for it alone: the API server has to reach it, or it fills a folder.
    """

    name: str
    needs_kube: bool = False
    places_pods: bool = False
    per_node: bool = False
    on_request: bool = False
    environment: Mapping[str, str] = MappingProxyType({})
    cpu_milli: int = FULL_SHARE

    @property
    def niceness(self) -> int:
        """What makes that share of the kernel, which gives a process 1.25 times as much with each step less."""
        return max(0, round(log(FULL_SHARE / self.cpu_milli, 1.25)))

    @property
    def module(self) -> str:
        """The module to run."""
        return "berth." + self.name.replace("-", "_")


SERVICES = (
    ServiceSpec("cluster-watcher", needs_kube=True, places_pods=True),
    ServiceSpec("cluster-writer", needs_kube=True, places_pods=True),
    ServiceSpec("device-inventory", cpu_milli=50),
    ServiceSpec("quota-manager", cpu_milli=100),
    ServiceSpec("reservation-manager", cpu_milli=50),
    ServiceSpec("slo-manager", cpu_milli=50),
    ServiceSpec("placement-solver", places_pods=True),
    ServiceSpec("auditor", needs_kube=True, cpu_milli=50),
    ServiceSpec(WEBHOOK, on_request=True),
    ServiceSpec(RECORDER, on_request=True, cpu_milli=50),
    ServiceSpec(NODE_AGENT, per_node=True, environment=MappingProxyType({"BERTH_NODE_NAME": "this-machine"})),
)
"""What a run on this machine starts."""

IN_CLUSTERS = (ServiceSpec("node-authenticator", needs_kube=True), ServiceSpec("yarn-operator"))
"""What only a cluster has: on one machine the one agent is a user of the bus."""
