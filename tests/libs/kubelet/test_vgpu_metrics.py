"""The figures of shared GPUs under both sets of names."""

from __future__ import annotations

from berth.kubelet.core.regions import DeviceUse, Region
from berth.kubelet.core.vgpu_metrics import (
    FAMILIES,
    ContainerRegion,
    HostGpu,
    MigDevice,
    Sample,
    samples_of_containers,
    samples_of_mig,
    samples_of_node,
)

USE = DeviceUse(0, "GPU-a", 1000, 30, 100, 10, 20, 60, 5, 7)


def of(samples: list[Sample]) -> dict[str, tuple[tuple[str, ...], float]]:
    return {each.family.name: (each.labels, each.value) for each in samples}


def by_old_name(samples: list[Sample]) -> dict[str, tuple[tuple[str, ...], float]]:
    return {each.family.old_name: (each.old_labels, each.value) for each in samples if each.family.old_name}


def test_names_are_those_of_the_protocol() -> None:
    assert {each.name: each.old_name for each in FAMILIES if each.old_name} == {
        "hami_host_gpu_memory_used_bytes": "HostGPUMemoryUsage",
        "hami_host_gpu_utilization_ratio": "HostCoreUtilization",
        "hami_vgpu_memory_used_bytes": "vGPU_device_memory_usage_in_bytes",
        "hami_vgpu_memory_limit_bytes": "vGPU_device_memory_limit_in_bytes",
        "hami_container_device_memory_bytes": "Device_memory_desc_of_container",
        "hami_container_device_utilization_ratio": "Device_utilization_desc_of_container",
        "hami_container_last_kernel_elapsed_seconds": "Device_last_kernel_of_container",
        "hami_mig_device_info": "MigInfo",
    }


def test_a_container() -> None:
    samples = list(samples_of_containers([ContainerRegion("d", "p", "c", Region(1, 1, (USE,), 1_000))], 1_030.5))
    labels = ("d", "p", "c", "0", "GPU-a")
    assert of(samples) == {
        "hami_vgpu_memory_used_bytes": (labels, 100),
        "hami_vgpu_memory_limit_bytes": (labels, 1000),
        "hami_container_device_memory_bytes": (labels, 100),
        "hami_container_device_utilization_ratio": (labels, 7),
        "hami_container_last_kernel_elapsed_seconds": (labels, 30.5),
        "hami_vgpu_memory_context_bytes": (labels, 10),
        "hami_vgpu_memory_module_bytes": (labels, 20),
        "hami_vgpu_memory_buffer_bytes": (labels, 60),
    }
    old = by_old_name(samples)
    assert old["Device_memory_desc_of_container"] == ((*labels, "10", "20", "60", "10"), 100)
    assert old["vGPU_device_memory_usage_in_bytes"] == (labels, 100)


def test_the_time_of_a_kernel_is_never_ahead_and_left_out_where_it_is_not_known() -> None:
    ahead = list(samples_of_containers([ContainerRegion("d", "p", "c", Region(1, 1, (USE,), 2_000))], 1_000))
    assert of(ahead)["hami_container_last_kernel_elapsed_seconds"][1] == 0
    unknown = list(samples_of_containers([ContainerRegion("d", "p", "c", Region(0, 1, (USE,)))], 1_000))
    assert "hami_container_last_kernel_elapsed_seconds" not in of(unknown)


def test_a_node_says_what_it_knows() -> None:
    labels = ("n", "0", "GPU-a", "NVIDIA-A100")
    known = list(samples_of_node("n", [HostGpu(0, "GPU-a", "A100", 5, 42.0)]))
    assert by_old_name(known) == {"HostGPUMemoryUsage": (labels, 5), "HostCoreUtilization": (labels, 42.0)}
    assert not list(samples_of_node("n", [HostGpu(0, "GPU-a", "A100")]))


def test_mig() -> None:
    samples = list(samples_of_mig([MigDevice("d", "p", "c", 0, "GPU-a", "MIG-x", "1g.5gb", 3, 0)]))
    assert of(samples)["hami_mig_device_info"][0] == ("d", "p", "c", "0", "GPU-a", "MIG-x", "1g.5gb", "3", "0")
    assert by_old_name(samples)["MigInfo"] == (("d", "p", "c", "0", "GPU-a", "3"), 1.0)


def test_labels_and_their_values_go_together() -> None:
    samples = [
        *samples_of_containers([ContainerRegion("d", "p", "c", Region(1, 1, (USE,), 1))], 2),
        *samples_of_node("n", [HostGpu(0, "u", "m", 1, 1.0)]),
        *samples_of_mig([MigDevice("d", "p", "c", 0, "u", "m", "p", 1, 2)]),
    ]
    assert {each.family for each in samples} == set(FAMILIES)
    for each in samples:
        assert len(each.labels) == len(each.family.labels)
        assert len(each.old_labels) == len(each.family.old_labels)
