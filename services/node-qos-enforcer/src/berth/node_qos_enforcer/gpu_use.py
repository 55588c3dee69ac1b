"""What is used of NVIDIA's GPUs, and their MIG instances, by the management library, where this machine has it."""

from __future__ import annotations

import contextlib
from typing import Any, Final, NamedTuple

import pynvml

from berth.kubelet.core.vgpu_metrics import HostGpu

GPUS_MAX: Final = 1_024
INSTANCES_MAX: Final = 64
"""Of one GPU; today's have seven."""
_MIG: Final = " MIG "


class Instance(NamedTuple):
    """A MIG instance: its GPU by place and UUID, its profile (`1g.5gb`), and its ids within the GPU."""

    place: int
    uuid: str
    mig_uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int


class Use(NamedTuple):
    """The GPUs that answer, and their MIG instances."""

    gpus: tuple[HostGpu, ...] = ()
    instances: tuple[Instance, ...] = ()


class GpuUse:
    """One opened library. Not for several threads at a time."""

    def __init__(self) -> None:
        """Nothing is loaded yet."""
        self._is_open = False

    def read(self) -> Use:
        """What is used now. The node's report says what is wrong with others; the library is opened anew then."""
        try:
            if not self._is_open:
                pynvml.nvmlInit()
                self._is_open = True
            asked = [_gpu(index) for index in range(min(pynvml.nvmlDeviceGetCount(), GPUS_MAX))]
        except pynvml.NVMLError:
            asked = [None]
        if None in asked:
            self.close()
        found = [each for each in asked if each is not None]
        return Use(tuple(gpu for gpu, _ in found), tuple(each for _, instances in found for each in instances))

    def close(self) -> None:
        """Let go of the GPUs."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()


def _gpu(index: int) -> tuple[HostGpu, list[Instance]] | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid, model = _text(pynvml.nvmlDeviceGetUUID(handle)), _text(pynvml.nvmlDeviceGetName(handle))
    except pynvml.NVMLError:
        return None
    memory: int | None = None
    percent: float | None = None
    with contextlib.suppress(pynvml.NVMLError):
        memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    with contextlib.suppress(pynvml.NVMLError):
        percent = float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    return HostGpu(index, uuid, model.removeprefix("NVIDIA "), memory, percent), _instances(handle, index, uuid)


def _instances(gpu: Any, place: int, uuid: str) -> list[Instance]:
    """The MIG instances of a GPU; most have none, and older drivers know nothing of it."""
    found = []
    with contextlib.suppress(pynvml.NVMLError):
        if pynvml.nvmlDeviceGetMigMode(gpu)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return []
        for index in range(min(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu), INSTANCES_MAX)):
            instance = _instance(gpu, index, place, uuid)
            if instance is not None:
                found.append(instance)
    return found


def _instance(gpu: Any, index: int, place: int, uuid: str) -> Instance | None:
    try:
        handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        return Instance(
            place,
            uuid,
            _text(pynvml.nvmlDeviceGetUUID(handle)),
            _text(pynvml.nvmlDeviceGetName(handle)).rpartition(_MIG)[2],
            int(pynvml.nvmlDeviceGetGpuInstanceId(handle)),
            int(pynvml.nvmlDeviceGetComputeInstanceId(handle)),
        )
    except pynvml.NVMLError:
        return None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
