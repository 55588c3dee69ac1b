"""Kubelet's configuration as it serves it (`/configz`), or as its file has it: what concerns CPUs, zones, devices and
control groups.

Each field is read for itself: kubelet's versions differ in the types of some, and one that is odd costs only itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.resources.amounts import parse_amounts
from berth.rules.bounded_json import read_json
from berth.rules.bounded_yaml import read_yaml

BYTES_MAX: Final = 1 << 20
FILE: Final = "kubelet.config"
"""How problems name the file."""
KIND: Final = "KubeletConfiguration"
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
    kubeletconfig: dict[str, Any]


def read_configz(body: str) -> KubeletConfig | Problem:
    """What kubelet answers. A body without a configuration is a problem of the whole."""
    read = read_json(body, _Configz, "configz", bytes_max=BYTES_MAX)
    return read if isinstance(read, Problem) else _config(read.kubeletconfig, _ROOT)


def read_config_file(text: str) -> KubeletConfig | Problem | None:
    """What kubelet's file says, YAML or JSON; None where it says nothing. Another object is a problem of the whole.

    A field that is not there has kubelet's default, and a flag of kubelet goes before its field: neither shows here.
    """
    if not text.strip():
        return None
    read = read_yaml(text, FILE)
    if isinstance(read, Problem):
        return read
    if read.get("kind") != KIND:
        return Problem(field=f"{FILE}.kind", message=f"must be {KIND}")
    return _config(read, FILE)


def _config(fields: Mapping[str, Any], root: str) -> KubeletConfig:
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    kinds: dict[str, tuple[str, Any]] = {name: (attribute, str | None) for name, attribute in _TEXTS.items()}
    for name, (attribute, kind) in (kinds | dict(_MAPS)).items():
        try:
            value = msgspec.convert(fields.get(name), type=kind)
        except (msgspec.ValidationError, RecursionError) as error:
            problems.append(Problem(field=f"{root}.{name}", message=f"is not readable: {error}"[:200]))
            continue
        if value is not None:
            values[attribute] = value
    for name, attribute in _RESERVED.items():
        if fields.get(name) is not None:
            values[attribute], faults = parse_amounts(fields[name], f"{root}.{name}")
            problems.extend(Problem(field=where, message=message) for where, message in faults)
    return KubeletConfig(**values, problems=tuple(problems))
