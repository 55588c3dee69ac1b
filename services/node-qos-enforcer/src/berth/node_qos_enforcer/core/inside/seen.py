"""Pods and containers as the runtime reports them, as plain values.

Texts come from pods that anybody may have made. Only what is asked of them later is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.nri import api_pb2 as api
from berth.rules.cpus.qos import qos_class
from berth.rules.cpus.resource_status import ResourceStatus, read_resource_status

BEFORE: Final = "node.berth.sh/limits-before"
"""Annotation of a container in the runtime: its limits before the plugin changed them, JSON."""
_BEST_EFFORT: Final = "besteffort"
_TEXT_MAX: Final = 4_096
_ADDRESS_MAX: Final = 64
_NETWORK: Final = "network"
_OVER: Final = frozenset({api.CONTAINER_STOPPED})
_RUNS: Final = frozenset({api.CONTAINER_RUNNING, api.CONTAINER_PAUSED})


class Limits(msgspec.Struct, frozen=True):
    """CPUs as a list (empty: none of its own), CFS quota in microseconds of each period and bytes of memory (None, 0,
    -1: none), CPU shares (None, 0: not known)."""

    cpus: str = ""
    quota_us: int | None = None
    cpu_shares: int | None = None
    memory_limit: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is a quota."""
        return self.quota_us is not None and self.quota_us > 0


class PodSeen(NamedTuple):
    """A pod's sandbox. `status` is what its record gives it, or why that cannot be read.

    `ips` are its addresses, unless it uses the node's own network.
    """

    id: str
    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    cgroup_parent: str
    status: ResourceStatus | Problem
    ips: tuple[str, ...] = ()
    is_on_host_network: bool = False

    @property
    def key(self) -> str:
        """How problems name it."""
        return f"pods[{self.namespace}/{self.name}]"

    @property
    def qos(self) -> str:
        """The QoS class of its label; empty: none."""
        return qos_class(self.labels)

    @property
    def is_best_effort(self) -> bool:
        """Whether its control group is below the best-effort one."""
        return _BEST_EFFORT in self.cgroup_parent


class ContainerSeen(NamedTuple):
    """A container. `env` and `devices` (number by path) and `mounts` (destinations) are what it has, `oom_score_adj`
    the score that kubelet gives it, None where nobody says it."""

    id: str
    pod_id: str
    name: str
    limits: Limits
    before: Limits | None
    env: Mapping[str, str]
    devices: Mapping[str, tuple[int, int]]
    mounts: frozenset[str]
    is_over: bool
    runs: bool
    oom_score_adj: int | None = None


def pod_seen(pod: api.PodSandbox) -> PodSeen:
    """A pod as the runtime reports it."""
    annotations = dict(pod.annotations)
    return PodSeen(
        pod.id,
        pod.uid[:_TEXT_MAX],
        pod.namespace[:_TEXT_MAX],
        pod.name[:_TEXT_MAX],
        dict(pod.labels),
        annotations,
        pod.linux.cgroup_parent[:_TEXT_MAX],
        read_resource_status(annotations),
        tuple(each[:_ADDRESS_MAX] for each in pod.ips),
        all(each.type != _NETWORK for each in pod.linux.namespaces),
    )


def container_seen(container: api.Container) -> ContainerSeen:
    """A container as the runtime reports it; what it has is complete only once it is created."""
    return ContainerSeen(
        container.id,
        container.pod_sandbox_id,
        container.name[:_TEXT_MAX],
        limits_of(container.linux.resources),
        _before(container.annotations.get(BEFORE, "")),
        dict(each.partition("=")[::2] for each in container.env),
        {each.path: (each.major, each.minor) for each in container.linux.devices},
        frozenset(each.destination for each in container.mounts),
        container.state in _OVER,
        container.state in _RUNS,
        container.linux.oom_score_adj.value if container.linux.HasField("oom_score_adj") else None,
    )


def limits_of(resources: api.LinuxResources) -> Limits:
    """The limits that concern us. An empty list of CPUs says nothing, nor do shares and memory of 0."""
    cpu, memory = resources.cpu, resources.memory
    quota_us = cpu.quota.value if cpu.HasField("quota") else None
    return Limits(cpu.cpus[:_TEXT_MAX], quota_us, cpu.shares.value or None, memory.limit.value or None)


def before_text(limits: Limits) -> str:
    """The annotation that keeps the limits of before."""
    return msgspec.json.encode(limits).decode()


def _before(text: str) -> Limits | None:
    if not text or len(text) > _TEXT_MAX:
        return None
    try:
        return msgspec.json.decode(text, type=Limits)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
