"""The figures of shared GPUs under the names that dashboards know: HAMi's of today, and those before its 2.10.

Sources of names and labels: HAMi's `cmd/vGPUmonitor/metrics.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from berth.kubelet.core.regions import DeviceUse, Region


class Family(NamedTuple):
    """A gauge: its names, what it says, and its labels under either name; the old one is empty where there was none."""

    name: str
    old_name: str
    help: str
    labels: tuple[str, ...]
    old_labels: tuple[str, ...]


class Sample(NamedTuple):
    """One value of a family under either name. `old_labels` are the values for `Family.old_labels`."""

    family: Family
    labels: tuple[str, ...]
    old_labels: tuple[str, ...]
    value: float


class ContainerRegion(NamedTuple):
    """What the file of one container says, and whose it is."""

    namespace: str
    pod: str
    container: str
    region: Region


class HostGpu(NamedTuple):
    """A GPU of the node as its driver sees it. `model` is the driver's name of it; what is None is not known."""

    place: int
    uuid: str
    model: str
    memory_used_bytes: int | None = None
    utilisation_percent: float | None = None


class MigDevice(NamedTuple):
    """A MIG instance that a container has."""

    namespace: str
    pod: str
    container: str
    place: int
    uuid: str
    mig_uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int


_HOST: Final = ("node", "device_index", "device_uuid", "device_type")
_OLD_HOST: Final = ("nodeid", "deviceidx", "deviceuuid", "devicetype")
_CONTAINER: Final = ("namespace", "pod", "container", "vdevice_index", "device_uuid")
_OLD_CONTAINER: Final = ("podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid")
_MEMORY: Final = (*_OLD_CONTAINER, "context", "module", "data", "offset")
_MIG: Final = (*_CONTAINER, "mig_uuid", "profile", "gpu_instance_id", "compute_instance_id")

HOST_MEMORY: Final = Family(
    "hami_host_gpu_memory_used_bytes", "HostGPUMemoryUsage", "Memory of a GPU in use, bytes", _HOST, _OLD_HOST
)
HOST_UTILISATION: Final = Family(
    "hami_host_gpu_utilization_ratio", "HostCoreUtilization", "Use of a GPU's cores, 0 to 100", _HOST, _OLD_HOST
)
MEMORY_USED: Final = Family(
    "hami_vgpu_memory_used_bytes",
    "vGPU_device_memory_usage_in_bytes",
    "Memory of a GPU that a container uses, bytes",
    _CONTAINER,
    _OLD_CONTAINER,
)
MEMORY_LIMIT: Final = Family(
    "hami_vgpu_memory_limit_bytes",
    "vGPU_device_memory_limit_in_bytes",
    "Memory of a GPU that a container may use, bytes; 0 is no limit",
    _CONTAINER,
    _OLD_CONTAINER,
)
MEMORY: Final = Family(
    "hami_container_device_memory_bytes",
    "Device_memory_desc_of_container",
    "Memory of a GPU that a container uses, bytes; the old name has its parts as labels",
    _CONTAINER,
    _MEMORY,
)
UTILISATION: Final = Family(
    "hami_container_device_utilization_ratio",
    "Device_utilization_desc_of_container",
    "Use of a GPU's SMs by a container, 0 to 100",
    _CONTAINER,
    _OLD_CONTAINER,
)
LAST_KERNEL: Final = Family(
    "hami_container_last_kernel_elapsed_seconds",
    "Device_last_kernel_of_container",
    "Time since a container last started a kernel, seconds",
    _CONTAINER,
    _OLD_CONTAINER,
)
CONTEXT: Final = Family("hami_vgpu_memory_context_bytes", "", "Of the memory in use, that of contexts", _CONTAINER, ())
MODULE: Final = Family("hami_vgpu_memory_module_bytes", "", "Of the memory in use, that of modules", _CONTAINER, ())
BUFFER: Final = Family("hami_vgpu_memory_buffer_bytes", "", "Of the memory in use, that of data", _CONTAINER, ())
MIG: Final = Family(
    "hami_mig_device_info", "MigInfo", "A MIG instance of a container, always 1", _MIG, (*_OLD_CONTAINER, "instanceid")
)

FAMILIES: Final = (
    HOST_MEMORY,
    HOST_UTILISATION,
    MEMORY_USED,
    MEMORY_LIMIT,
    MEMORY,
    UTILISATION,
    LAST_KERNEL,
    CONTEXT,
    MODULE,
    BUFFER,
    MIG,
)


def samples_of_containers(regions: Iterable[ContainerRegion], now_s: float) -> Iterator[Sample]:
    """What the containers use of their GPUs. `now_s` is in seconds since 1970; a time ahead of it counts as now."""
    for each in regions:
        for device in each.region.devices:
            labels = (each.namespace, each.pod, each.container, str(device.place), device.uuid)
            yield from _of_device(device, labels)
            if each.region.last_kernel_s > 0:
                elapsed_s = max(now_s - each.region.last_kernel_s, 0.0)
                yield Sample(LAST_KERNEL, labels, labels, elapsed_s)


def samples_of_node(node: str, gpus: Iterable[HostGpu]) -> Iterator[Sample]:
    """What the node's GPUs are used for in all."""
    for gpu in gpus:
        labels = (node, str(gpu.place), gpu.uuid, f"NVIDIA-{gpu.model}")
        if gpu.memory_used_bytes is not None:
            yield Sample(HOST_MEMORY, labels, labels, gpu.memory_used_bytes)
        if gpu.utilisation_percent is not None:
            yield Sample(HOST_UTILISATION, labels, labels, gpu.utilisation_percent)


def samples_of_mig(devices: Iterable[MigDevice]) -> Iterator[Sample]:
    """The MIG instances that containers have."""
    for each in devices:
        shared = (each.namespace, each.pod, each.container, str(each.place), each.uuid)
        instances = (str(each.gpu_instance), str(each.compute_instance))
        yield Sample(MIG, (*shared, each.mig_uuid, each.profile, *instances), (*shared, instances[0]), 1.0)


def _of_device(device: DeviceUse, labels: tuple[str, ...]) -> Iterator[Sample]:
    yield Sample(MEMORY_USED, labels, labels, device.total_bytes)
    yield Sample(MEMORY_LIMIT, labels, labels, device.limit_bytes)
    rest = device.total_bytes - device.context_bytes - device.module_bytes - device.data_bytes
    parts = (device.context_bytes, device.module_bytes, device.data_bytes, rest)
    yield Sample(MEMORY, labels, (*labels, *map(str, parts)), device.total_bytes)
    yield Sample(UTILISATION, labels, labels, device.sm_percent)
    for family, part in zip((CONTEXT, MODULE, BUFFER), parts, strict=False):
        yield Sample(family, labels, (), part)
