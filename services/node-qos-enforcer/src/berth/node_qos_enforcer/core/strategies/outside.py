"""What runs on the node outside of pods: the applications that its strategy names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.cgroup_paths import Driver
from berth.node_qos_enforcer.core.laws.host_applications import HostApplication, application_of
from berth.node_qos_enforcer.core.strategies.node_slo import HOST_APPLICATIONS
from berth.node_qos_enforcer.core.strategies.seam import Spec

APPLICATIONS_MAX: Final = 200


def applications_of(spec: Spec, driver: Driver) -> tuple[tuple[HostApplication, ...], tuple[Problem, ...]]:
    """The applications, and what is wrong with those that cannot be had."""
    listed = spec.get(HOST_APPLICATIONS)
    found = [
        application_of(each, driver, f"{HOST_APPLICATIONS}[{position}]")
        for position, each in enumerate(listed[:APPLICATIONS_MAX] if isinstance(listed, list) else ())
        if isinstance(each, Mapping)
    ]
    return (
        tuple(each for each in found if isinstance(each, HostApplication) and each.group),
        tuple(each for each in found if isinstance(each, Problem)),
    )
