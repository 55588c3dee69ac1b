"""The shapes of pods of a mixed workload, each by what makes it one.

`weight` says how many of 1,000 pods are of the shape. A pod that asks for an accelerator names the vendor, or the
model, since every vendor's cards answer to `koordinator.sh/gpu`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts import names

Amounts = dict[str, str]


class Asks(NamedTuple):
    """What a pod asks for."""

    requests: Amounts
    selector: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    host_port: int = 0


class Shape(NamedTuple):
    """Pods of one shape; `members`: so many are one gang, and start together. `reserved`: each draws on a Reservation
    of its own."""

    name: str
    weight: int
    make: Callable[[random.Random], Asks]
    members: int = 1
    reserved: bool = False


def _plain(rng: random.Random, cores: Sequence[float] = (0.5, 1, 2, 4, 8, 16)) -> Amounts:
    cpu = rng.choice(cores)
    return {"cpu": f"{int(1000 * cpu)}m", "memory": f"{int(1024 * cpu * rng.choice((2, 4)))}Mi"}


def _of(vendor: str) -> dict[str, str]:
    return {names.LABEL_GPU_VENDOR: vendor}


def _model(model: str) -> dict[str, str]:
    return {names.LABEL_GPU_MODEL: model}


def _with(rng: random.Random, amounts: Mapping[str, object]) -> Amounts:
    return _plain(rng, (2, 4, 8)) | {name: str(amount) for name, amount in amounts.items()}


def _share(percent: int) -> dict[str, object]:
    return {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent}


def plain(rng: random.Random) -> Asks:
    """Cpu and memory."""
    return Asks(_plain(rng), labels={names.LABEL_QOS: "LS"})


def best_effort(rng: random.Random) -> Asks:
    """Of class BE."""
    return Asks(_plain(rng, (0.5, 1, 2)), labels={names.LABEL_QOS: "BE", names.LABEL_PRIORITY_CLASS: "koord-batch"})


def host_port(rng: random.Random) -> Asks:
    """With a port of its node."""
    return Asks(_plain(rng, (1,)), host_port=rng.randrange(20_000, 20_050))


def whole_gpu(rng: random.Random) -> Asks:
    """A card of NVIDIA, by its plugin's name."""
    return Asks(_with(rng, {names.NVIDIA_GPU: 1}), _of("nvidia"))


def several_gpus(rng: random.Random) -> Asks:
    """Some cards of NVIDIA, in percent."""
    return Asks(_with(rng, {names.KOORD_GPU: 100 * rng.choice((2, 4, 8))}), _of("nvidia"))


def shared_gpu(rng: random.Random) -> Asks:
    """A part of a card, in percent."""
    return Asks(_with(rng, _share(rng.choice((10, 25, 30, 50, 60)))), _of("nvidia"))


def gpu_memory(rng: random.Random) -> Asks:
    """A part of a card, its memory in bytes."""
    memory = f"{rng.choice((2, 4, 8))}Gi"
    return Asks(_with(rng, {names.GPU_CORE: rng.choice((20, 40)), names.GPU_MEMORY: memory}), _of("nvidia"))


def isolated_gpu(rng: random.Random) -> Asks:
    """A part of a card that the node keeps apart from others."""
    return Asks(_with(rng, _share(20)), _of("nvidia"), labels={names.LABEL_GPU_ISOLATION: "HAMi-core"})


def uneven_gpus(rng: random.Random) -> Asks:
    """A share of several cards that may be divided unevenly."""
    asked = {names.GPU_SHARED: 2, **_share(100)}
    return Asks(_with(rng, asked), _of("nvidia"), annotations={names.ANNOTATION_GPU_SPLIT: "uneven"})


def hinted_gpus(rng: random.Random) -> Asks:
    """Cards on one PCIe root."""
    hint = json.dumps({"gpu": {"requiredTopologyScope": "PCIe"}})
    return Asks(_with(rng, {names.KOORD_GPU: 200}), _of("nvidia"), annotations={names.ANNOTATION_DEVICE_HINT: hint})


def amd(rng: random.Random) -> Asks:
    """A card of AMD."""
    return Asks(_with(rng, {names.AMD_GPU: 1}), _of("amd"))


def dcu(rng: random.Random) -> Asks:
    """A card of Hygon."""
    return Asks(_with(rng, {names.DCU_GPU: rng.choice((1, 2))}), _of("hygon"))


def xpu(rng: random.Random) -> Asks:
    """Cards of Kunlunxin."""
    return Asks(_with(rng, {names.KOORD_GPU: 100 * rng.choice((1, 2, 4))}), _of("baidu"))


def metax(rng: random.Random) -> Asks:
    """A part of a card of MetaX."""
    return Asks(_with(rng, {names.GPU_CORE: 50, names.GPU_MEMORY: "32Gi"}), _of("metax"))


def mlu(rng: random.Random) -> Asks:
    """A part of an MLU of Cambricon."""
    return Asks(_with(rng, {names.GPU_CORE: 25, names.GPU_MEMORY: "12Gi"}), _of("cambricon"))


def npu(rng: random.Random) -> Asks:
    """Whole NPUs of Huawei."""
    count = rng.choice((1, 2, 4))
    asked = {names.NPU_CORE: 20 * count, names.GPU_MEMORY_RATIO: 100 * count}
    return Asks(_with(rng, asked), _model("Ascend-910B3"))


def virtual_npu(rng: random.Random) -> Asks:
    """A virtual NPU of the size `vir02`."""
    asked = {names.GPU_SHARED: 1, names.NPU_CORE: 2, names.NPU_CPU: 2, names.NPU_DVPP: 25, names.GPU_MEMORY: "6Gi"}
    return Asks(_with(rng, asked), _model("Ascend-310P3"))


def rdma(rng: random.Random) -> Asks:
    """A part of a NIC."""
    return Asks(_with(rng, {names.RDMA: rng.choice((25, 50))}))


def gpu_and_rdma(rng: random.Random) -> Asks:
    """Cards and NICs that lie close together."""
    joint = json.dumps({"deviceTypes": ["gpu", "rdma"], "requiredScope": rng.choice(("", "SamePCIe"))})
    asked = {names.KOORD_GPU: 200, names.RDMA: 100}
    return Asks(_with(rng, asked), _of("nvidia"), annotations={names.ANNOTATION_DEVICE_JOINT: joint})


def fpga(rng: random.Random) -> Asks:
    """A whole FPGA."""
    return Asks(_with(rng, {names.FPGA: 100}))


def own_cores(rng: random.Random) -> Asks:
    """Cores of its own (LSR)."""
    spec = json.dumps({"preferredCPUBindPolicy": rng.choice(("FullPCPUs", "SpreadByPCPUs"))})
    labels = {names.LABEL_QOS: "LSR", names.LABEL_PRIORITY_CLASS: "koord-prod"}
    return Asks(_plain(rng, (2, 4, 8)), labels=labels, annotations={names.ANNOTATION_RESOURCE_SPEC: spec})


def exclusive_cores(rng: random.Random) -> Asks:
    """Cores of its own that best-effort pods keep off, too (LSE)."""
    return Asks(_plain(rng, (2, 4)), labels={names.LABEL_QOS: "LSE"})


def one_zone(rng: random.Random) -> Asks:
    """All of it from one NUMA node."""
    spec = json.dumps({"numaTopologyPolicy": "SingleNUMANode"})
    return Asks(_plain(rng, (4, 8)), annotations={names.ANNOTATION_NUMA_SPEC: spec})


def zoned_gpu(rng: random.Random) -> Asks:
    """A card, its cpu and its memory from one NUMA node."""
    spec = json.dumps({"numaTopologyPolicy": "Restricted"})
    return Asks(_with(rng, {names.NVIDIA_GPU: 1}), _of("nvidia"), annotations={names.ANNOTATION_NUMA_SPEC: spec})


SHAPES: Final = (
    Shape("plain", 300, plain),
    Shape("best-effort", 60, best_effort),
    Shape("host-port", 10, host_port),
    Shape("gpu", 110, whole_gpu),
    Shape("gpus", 30, several_gpus),
    Shape("gpu-share", 110, shared_gpu),
    Shape("gpu-memory", 30, gpu_memory),
    Shape("gpu-isolated", 10, isolated_gpu),
    Shape("gpu-uneven", 10, uneven_gpus),
    Shape("gpu-hint", 10, hinted_gpus),
    Shape("amd", 25, amd),
    Shape("dcu", 25, dcu),
    Shape("xpu", 20, xpu),
    Shape("metax", 20, metax),
    Shape("mlu", 25, mlu),
    Shape("npu", 25, npu),
    Shape("npu-virtual", 15, virtual_npu),
    Shape("rdma", 15, rdma),
    Shape("gpu-rdma", 20, gpu_and_rdma),
    Shape("fpga", 5, fpga),
    Shape("cores-lsr", 35, own_cores),
    Shape("cores-lse", 10, exclusive_cores),
    Shape("zone", 15, one_zone),
    Shape("gpu-zone", 10, zoned_gpu),
    Shape("gang", 40, whole_gpu, members=8),
    Shape("reserved", 15, whole_gpu, reserved=True),
)
