"""Kubelet's configuration as it serves it (`/configz`): what concerns CPUs, zones, devices and control groups.

Each field is read for itself: kubelet's versions differ in the types of some, and one that is odd costs only itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.resources.amounts import parse_amounts
from berth.rules.bounded_json import read_json

BYTES_MAX: Final = 1 << 20
_ROOT: Final = "kubeletconfig"
_CPU: Final = "cpu"


class KubeletConfig(NamedTuple):
    """What kubelet runs with, in its own words; empty: it says nothing. Problems name what could not be read.

    `reserved_system_cpus` is a list of CPUs as text. Amounts of `kube_reserved` and `system_reserved` are integers in
    the units of requests.
    """

    cpu_manager_policy: str = ""
    cpu_manager_policy_options: Mapping[str, str] = {}
    cpu_manager_reconcile_period: str = ""
    reserved_system_cpus: str = ""
    kube_reserved: Mapping[str, int] = {}
    system_reserved: Mapping[str, int] = {}
    eviction_hard: Mapping[str, str] = {}
    topology_manager_policy: str = ""
    topology_manager_scope: str = ""
    topology_manager_policy_options: Mapping[str, str] = {}
    memory_manager_policy: str = ""
    cgroup_driver: str = ""
    feature_gates: Mapping[str, bool] = {}
    problems: tuple[Problem, ...] = ()

    @property
    def reserved_cpu_count(self) -> int:
        """How many whole CPUs the amounts that are held back come to: what kubelet takes for itself where it lists
        no CPUs."""
        return -(-(self.kube_reserved.get(_CPU, 0) + self.system_reserved.get(_CPU, 0)) // 1000)


_TEXTS: Final = {
    "cpuManagerPolicy": "cpu_manager_policy",
    "cpuManagerReconcilePeriod": "cpu_manager_reconcile_period",
    "reservedSystemCPUs": "reserved_system_cpus",
    "topologyManagerPolicy": "topology_manager_policy",
    "topologyManagerScope": "topology_manager_scope",
    "memoryManagerPolicy": "memory_manager_policy",
    "cgroupDriver": "cgroup_driver",
}
_MAPS: Final[Mapping[str, tuple[str, Any]]] = {
    "cpuManagerPolicyOptions": ("cpu_manager_policy_options", dict[str, str] | None),
    "topologyManagerPolicyOptions": ("topology_manager_policy_options", dict[str, str] | None),
    "evictionHard": ("eviction_hard", dict[str, str] | None),
    "featureGates": ("feature_gates", dict[str, bool] | None),
}
_RESERVED: Final = {"kubeReserved": "kube_reserved", "systemReserved": "system_reserved"}


class _Configz(msgspec.Struct, frozen=True):
    kubeletconfig: dict[str, msgspec.Raw]


def read_configz(body: str) -> KubeletConfig | Problem:
    """What kubelet answers. A body without a configuration is a problem of the whole."""
    read = read_json(body, _Configz, "configz", bytes_max=BYTES_MAX)
    if isinstance(read, Problem):
        return read
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    kinds: dict[str, tuple[str, Any]] = {name: (attribute, str | None) for name, attribute in _TEXTS.items()}
    for name, (attribute, kind) in (kinds | dict(_MAPS)).items():
        raw = read.kubeletconfig.get(name)
        if raw is None:
            continue
        try:
            value = msgspec.json.decode(raw, type=kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            problems.append(Problem(field=f"{_ROOT}.{name}", message=f"is not readable: {error}"[:200]))
            continue
        if value is not None:
            values[attribute] = value
    for name, attribute in _RESERVED.items():
        values[attribute] = _amounts(read.kubeletconfig.get(name), f"{_ROOT}.{name}", problems)
    return KubeletConfig(**values, problems=tuple(problems))


def _amounts(raw: msgspec.Raw | None, field: str, problems: list[Problem]) -> Mapping[str, int]:
    if raw is None:
        return {}
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        problems.append(Problem(field=field, message=f"is not readable: {error}"[:200]))
        return {}
    if value is None:
        return {}
    amounts, faults = parse_amounts(value, field)
    problems.extend(Problem(field=where, message=message) for where, message in faults)
    return amounts
