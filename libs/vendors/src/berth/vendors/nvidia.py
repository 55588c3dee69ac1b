"""NVIDIA: GPUs as NVML describes them, isolated by HAMi-core where a pod takes part of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.devices.kubelet_counts import DIVIDED
from berth.vendors import pci
from berth.vendors.devices import Found, FoundDevice, Status, common_model
from berth.vendors.label_value import label_value
from berth.vendors.nvlink import nvlinks
from berth.vendors.probe import NvmlFacts, NvmlGpu, Probe
from berth.vendors.vendor import WHOLE, Container, Edits, Given, Mount, Vendor, accepted_of, given_field

APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Events that a faulty program causes; the GPU is well."""
MEMORY_MAX: Final = 1 << 50
MINOR_MAX: Final = 65_535
MODULE_MAX: Final = 1_023
ISOLATION: Final = "HAMi-core"
LOCKS: Final = "/tmp/vgpulock"  # noqa: S108 - where HAMi-core keeps its locks, on both sides of the mount
CACHES: Final = "/usr/local/vgpu"
_UUID: Final = ("GPU-", "MIG-")


class Nvidia(Vendor):
    """GPUs of NVIDIA. Its device plugin reads nothing: the container's environment says which GPUs are seen."""

    name = "nvidia"
    request_sets = accepted_of(
        names.NVIDIA_GPU, names.KOORD_GPU, names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED
    )
    doubled = {names.KOORD_GPU: names.GPU_CORE}

    def discover(self, probe: Probe) -> Found:
        """See `Vendor`. Where NVML is not there, there are no GPUs."""
        facts = probe.nvml()
        if facts is None:
            return Found()
        devices, problems = [], []
        for at, gpu in enumerate(facts.gpus):
            device = _device(probe, facts, at, gpu)
            if isinstance(device, Problem):
                problems.append(device)
            else:
                devices.append(device)
        known = {pci.address(gpu.bus) for gpu in facts.gpus}
        if "" not in known:
            lost = [bus for bus in pci.bound_to(probe, "nvidia") if bus not in known]
            problems += [Problem(field=f"{pci.DRIVERS}/nvidia/{bus}", message="NVML does not know it") for bus in lost]
        linked = _linked(devices, facts)
        return Found(devices=linked, problems=tuple(problems), driver=facts.driver, model=common_model(devices))

    def edits(self, container: Container, given: tuple[Given, ...], probe: Probe) -> Edits | Problem:
        """The GPUs that the runtime shows, by UUID where all ids are such; with the isolation label HAMi-core's limits.

        Several GPUs of different size get limits of their own (`CUDA_DEVICE_MEMORY_LIMIT_<i>`, HAMi) beside the first
        one's.
        """
        ids = [each.id if each.id.startswith(_UUID) else "" for each in given]
        env = {"NVIDIA_VISIBLE_DEVICES": ",".join(ids if all(ids) else [str(each.minor) for each in given])}
        if not is_isolated(container):
            return Edits(env=env)
        for each in given:
            if each.amounts.get(names.GPU_MEMORY_RATIO, 0) <= 0:
                return _missing(each, names.GPU_MEMORY_RATIO)
        if all(each.amounts[names.GPU_MEMORY_RATIO] >= WHOLE for each in given):
            return Edits(env=env)
        for each in given:
            if each.amounts.get(names.GPU_MEMORY, 0) <= 0:
                return _missing(each, names.GPU_MEMORY)
        return _isolated(container, given, env)


def is_isolated(container: Container) -> bool:
    """Whether the pod asks for HAMi-core; texts write it in small letters as well."""
    return container.pod_labels.get(names.LABEL_GPU_ISOLATION, "").lower() == ISOLATION.lower()


def _isolated(container: Container, given: tuple[Given, ...], env: dict[str, str]) -> Edits:
    limits = [each.amounts[names.GPU_MEMORY] for each in given]
    env["CUDA_DEVICE_MEMORY_LIMIT"] = str(limits[0])
    if len(set(limits)) > 1:
        env |= {f"CUDA_DEVICE_MEMORY_LIMIT_{at}": str(limit) for at, limit in enumerate(limits)}
    if core := given[0].amounts.get(names.GPU_CORE, 0):
        env["CUDA_DEVICE_SM_LIMIT"] = str(core)
    env["LD_PRELOAD"] = container.library
    mounts = [Mount(source=container.library, destination=container.library), Mount(source=LOCKS, destination=LOCKS)]
    if not container.monitors:
        return Edits(env=env, mounts=tuple(mounts))
    own = f"{container.pod_uid}_{container.name}"
    env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{CACHES}/{own}.cache"
    folder = f"{CACHES}/containers/{own}"
    mounts.append(Mount(source=folder, destination=CACHES))
    return Edits(env=env, mounts=tuple(mounts), folders=(folder,))


def _missing(device: Given, name: str) -> Problem:
    return Problem(
        field=given_field(device, f"resources[{name}]"), message=f"is missing, and {ISOLATION} cannot isolate without"
    )


def _device(probe: Probe, facts: NvmlFacts, at: int, gpu: NvmlGpu) -> FoundDevice | Problem:
    field = f"nvml.devices[{at}]"
    if not gpu.uuid:
        return Problem(field=f"{field}.uuid", message="must not be empty")
    if not 0 <= gpu.minor <= MINOR_MAX:
        return Problem(field=f"{field}.minor", message=f"{gpu.minor} must lie between 0 and {MINOR_MAX}")
    if not 0 < gpu.memory <= MEMORY_MAX:
        return Problem(field=f"{field}.memory", message=f"{gpu.memory} must lie between 1 and {MEMORY_MAX}")
    bus = pci.address(gpu.bus)
    return FoundDevice(
        kind="gpu",
        minor=gpu.minor,
        id=gpu.uuid,
        vendor=Nvidia.name,
        model=label_value(gpu.name.removeprefix("NVIDIA ")),
        amounts={names.GPU_CORE: WHOLE, names.GPU_MEMORY: gpu.memory, names.GPU_MEMORY_RATIO: WHOLE},
        status=_status(facts, gpu),
        place=pci.place(probe, bus) if bus else None,
        module=gpu.module if gpu.module is not None and 0 <= gpu.module <= MODULE_MAX else None,
    )


def _linked(devices: Sequence[FoundDevice], facts: NvmlFacts) -> tuple[FoundDevice, ...]:
    """The devices with the NVLinks between them."""
    by_id = {gpu.uuid: gpu for gpu in facts.gpus}
    by_bus = {pci.address(by_id[device.id].bus): device.minor for device in devices}
    buses = {device.minor: [pci.address(peer) for peer in by_id[device.id].peers] for device in devices}
    peers = {minor: {by_bus[bus] for bus in found if bus in by_bus} for minor, found in buses.items()}
    links = nvlinks(peers, {device.minor for device in devices if by_id[device.id].is_switched})
    return tuple(
        replace(device, links=links[device.minor], has_links=True) if device.minor in links else device
        for device in devices
    )


def _status(facts: NvmlFacts, gpu: NvmlGpu) -> Status | None:
    critical = [xid for xid in (*gpu.xids, *facts.stray_xids) if xid not in APPLICATION_XIDS]
    if critical:
        return Status(healthy=False, code=f"Xid{critical[0]}", message=f"critical Xid {critical[0]}")
    if gpu.is_split:
        return Status(
            healthy=False, code=DIVIDED, message="it is in MIG mode, and is given out neither whole nor by percent"
        )
    if not gpu.tells_health:
        return Status(
            healthy=False, code="DeviceHealthCheckNotSupported", message="device does not support health checking"
        )
    return None
