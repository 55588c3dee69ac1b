"""What the agent decides of a container on a node that is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.libs.vendors.fake_probe import FakeProbe
from tests.services.node_qos_builders import FACTS, LAYOUT, inventory

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.inside.cpus import Wanted, wanted_limits
from berth.node_qos_enforcer.core.inside.devices import device_edits
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.seen import Limits, pod_seen
from berth.nri import api_pb2 as api
from berth.rules.cpus.cpuset import read_cpuset
from berth.rules.cpus.shared_pools import SharedPools, shared_pools
from berth.vendors.vendor import Edits

POOLS = shared_pools(LAYOUT)
NO_LIMITS = Limits()

KNOWN = replace(FACTS, inventory=inventory(*range(8)))


def wanted(
    of: api.PodSandbox, facts: InsideFacts = FACTS, base: Limits = NO_LIMITS, pools: SharedPools = POOLS
) -> Wanted:
    """The limits that a pod's containers are to have."""
    return wanted_limits(pod_seen(of), base, pools, facts)


def edits_of(of: api.PodSandbox, name: str = "main", facts: InsideFacts = KNOWN, probe: Any = None) -> Edits | Problem:
    """What a container is given to reach its devices."""
    return device_edits(pod_seen(of), name, facts, probe or FakeProbe())


def env_of(of: api.PodSandbox, name: str = "main", facts: InsideFacts = KNOWN) -> dict[str, str]:
    """The environment that this gives it."""
    found = edits_of(of, name, facts)
    assert isinstance(found, Edits), found
    return dict(found.env)


def cpu_list(text: str) -> frozenset[int]:
    """A set of CPUs as a case writes it."""
    found = read_cpuset(text, "case")
    assert not isinstance(found, Problem)
    return found
