"""How much of each of NVIDIA's GPUs is used in all, by the management library, where this machine has it."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import pynvml

from berth.kubelet.core.vgpu_metrics import HostGpu

GPUS_MAX: Final = 1_024


class GpuUse:
    """One opened library. Not for several threads at a time."""

    def __init__(self) -> None:
        """Nothing is loaded yet."""
        self._is_open = False

    def read(self) -> tuple[HostGpu, ...]:
        """Each GPU that answers. The node's report says what is wrong with others; the library is opened anew then."""
        try:
            if not self._is_open:
                pynvml.nvmlInit()
                self._is_open = True
            asked = [_gpu(index) for index in range(min(pynvml.nvmlDeviceGetCount(), GPUS_MAX))]
        except pynvml.NVMLError:
            asked = [None]
        if None in asked:
            self.close()
        return tuple(each for each in asked if each is not None)

    def close(self) -> None:
        """Let go of the GPUs."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()


def _gpu(index: int) -> HostGpu | None:
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
    return HostGpu(index, uuid, model.removeprefix("NVIDIA "), memory, percent)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
