"""Pods and containers as a runtime tells of them, and the facts of a small node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from berth.contracts import names
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.nri import api_pb2 as api
from berth.rules.cpus.layout import Cpu, CpuLayout

GUARANTEED = "/kubepods/pod{uid}"
BEST_EFFORT = "/kubepods/besteffort/pod{uid}"
LAYOUT = CpuLayout(Cpu(cpu, cpu // 2, cpu // 4, cpu // 4) for cpu in range(8))
"""Two zones of two cores with two threads each."""
FACTS = InsideFacts(layout=LAYOUT)
GPU = "GPU-8c25f7f0-0000-0000-0000-00000000000"


def pod(
    name: str = "web",
    *,
    qos: str = "",
    cpus: str = "",
    devices: Any = None,
    containers: Any = None,
    labels: Mapping[str, str] = {},
    annotations: Mapping[str, str] = {},
    parent: str = GUARANTEED,
    pid: int = 1,
) -> api.PodSandbox:
    """A pod with these records."""
    noted = dict(annotations)
    if cpus:
        noted[names.ANNOTATION_RESOURCE_STATUS] = json.dumps({"cpuset": cpus})
    if devices is not None:
        noted[names.ANNOTATION_DEVICE_ALLOCATED] = json.dumps(devices)
    if containers is not None:
        noted[names.ANNOTATION_CONTAINER_DEVICES] = json.dumps(containers)
    return api.PodSandbox(
        id=f"sandbox-{name}",
        name=name,
        namespace="work",
        uid=f"uid-{name}",
        labels={**({names.LABEL_QOS: qos} if qos else {}), **labels},
        annotations=noted,
        linux=api.LinuxPodSandbox(cgroup_parent=parent.format(uid=f"uid-{name}")),
        pid=pid,
    )


def container(
    of: api.PodSandbox,
    name: str = "main",
    *,
    cpus: str = "",
    quota_us: int | None = None,
    env: Mapping[str, str] = {},
    state: api.ContainerState = api.CONTAINER_RUNNING,
    annotations: Mapping[str, str] = {},
    shares: int = 0,
    memory: int = 0,
    oom_score: int | None = None,
) -> api.Container:
    """A container of a pod."""
    cpu = api.LinuxCPU(
        cpus=cpus,
        quota=None if quota_us is None else api.OptionalInt64(value=quota_us),
        shares=api.OptionalUInt64(value=shares),
    )
    resources = api.LinuxResources(cpu=cpu, memory=api.LinuxMemory(limit=api.OptionalInt64(value=memory)))
    score = None if oom_score is None else api.OptionalInt(value=oom_score)
    return api.Container(
        id=f"{of.name}-{name}",
        pod_sandbox_id=of.id,
        name=name,
        state=state,
        annotations=annotations,
        env=[f"{key}={value}" for key, value in env.items()],
        linux=api.LinuxContainer(resources=resources, oom_score_adj=score),
    )


def gpu(minor: int, *, ratio: int = 100, uuid: str = "") -> dict[str, Any]:
    """A card, or part of one, in a record."""
    amounts = {names.GPU_CORE: str(ratio), names.GPU_MEMORY: f"{ratio}Mi", names.GPU_MEMORY_RATIO: str(ratio)}
    return {"minor": minor, "id": uuid or f"{GPU}{minor}", "resources": amounts}


def inventory(*minors: int, vendor: str = "nvidia") -> NodeInventory:
    """A node with these cards."""
    slots = [DeviceSlot(kind="gpu", minor=minor, uuid=f"{GPU}{minor}") for minor in minors]
    return NodeInventory(node="n", version=1, devices=slots, gpu_vendor=vendor)
