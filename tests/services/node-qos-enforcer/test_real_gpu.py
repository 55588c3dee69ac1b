"""A real GPU of NVIDIA's, where this machine has one: what is read of it beside what `nvidia-smi` says, what a program
on it shows as used, and a faulty program's event, which must not make the GPU count as ill."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pynvml
import pytest

from berth.contracts import names
from berth.node_qos_enforcer.gpu_use import GpuUse
from berth.node_qos_enforcer.host_probe import HostProbe
from berth.node_qos_enforcer.nvml import Nvml
from berth.vendors.discovery import discover

GIB = 1 << 30
ROOTS = {"/sys": "/sys", "/proc": "/proc", "/dev": "/dev"}
ASKED = "index,uuid,name,memory.total,pci.bus_id,driver_version,mig.mode.current"
HOLDS = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[1])) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(int(sys.argv[2]))) == 0
print("holds", flush=True)
sys.stdin.readline()
"""
FAULTY = (
    HOLDS
    + '''
PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry writes_astray() { .reg .u64 %a; mov.u64 %a, 64; st.global.u64 [%a], %a; ret; }
"""
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"writes_astray") == 0
assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
assert cuda.cuCtxSynchronize() != 0
'''
)


def gpus() -> int:
    """How many GPUs NVIDIA's library knows here."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()


pytestmark = pytest.mark.skipif(not gpus(), reason="a GPU of NVIDIA's with its driver is missing")


@pytest.fixture
def nvml() -> Iterator[Nvml]:
    opened = Nvml(time.monotonic)
    yield opened
    opened.close()


def test_reads_what_the_vendors_own_tool_says(nvml: Nvml) -> None:
    told = subprocess.run(
        ["nvidia-smi", f"--query-gpu={ASKED}", "--format=csv,noheader,nounits"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    facts = nvml.facts()
    assert facts is not None
    assert not nvml.problems
    found = discover(HostProbe(ROOTS, lambda: facts))
    assert not [problem for problem in found.problems if problem.field.startswith("nvml")]
    devices = {device.id: device for device in found.devices if device.vendor == "nvidia"}
    assert len(facts.gpus) == len(devices) == len(told)
    for line, gpu in zip(told, facts.gpus, strict=True):
        _, uuid, name, mib, bus, driver, mig = (each.strip() for each in line.split(","))
        assert (gpu.uuid, gpu.name, facts.driver) == (uuid, name, driver)
        assert gpu.bus.lower().endswith(bus.lower()[-12:])
        assert abs(gpu.memory - int(mib) * GIB // 1024) < GIB // 1024
        assert gpu.is_split == (mig == "Enabled")
        device = devices[uuid]
        assert device.amounts == {names.GPU_CORE: 100, names.GPU_MEMORY: gpu.memory, names.GPU_MEMORY_RATIO: 100}
        assert device.place is not None
        assert device.status is None or gpu.is_split or not gpu.tells_health


def test_memory_that_a_program_holds_is_shown_as_used() -> None:
    use = GpuUse()
    before = use.read().gpus[0]
    with Running(HOLDS, GIB):
        during = use.read().gpus[0]
    use.close()
    assert before.uuid == during.uuid
    assert before.memory_used_bytes is not None
    assert during.memory_used_bytes is not None
    assert during.memory_used_bytes - before.memory_used_bytes >= GIB


def test_a_faulty_program_does_not_make_the_gpu_ill(nvml: Nvml) -> None:
    first = nvml.facts()
    assert first is not None
    if not first.gpus[0].tells_health:
        pytest.skip("this driver reports no events of its GPU")
    with Running(FAULTY, 1):
        pass
    seen = first
    end = time.monotonic() + 10
    while not (seen.gpus[0].xids or seen.stray_xids) and time.monotonic() < end:
        time.sleep(0.2)
        facts = nvml.facts()
        assert facts is not None
        seen = facts
    assert seen.gpus[0].xids or seen.stray_xids, "the driver reported no event"
    device = next(each for each in discover(HostProbe(ROOTS, lambda: seen)).devices if each.id == seen.gpus[0].uuid)
    assert device.status is None or seen.gpus[0].is_split


class Running:
    """A program on the first GPU, from when it holds its memory until it has ended."""

    def __init__(self, program: str, amount: int) -> None:
        self._arguments = [sys.executable, "-c", program, "0", str(amount)]

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "holds"

    def __exit__(self, *_: object) -> None:
        self._process.communicate("\n", timeout=60)
        assert self._process.returncode == 0
