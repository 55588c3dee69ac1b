"""The machines of a mixed cluster: which accelerators, NICs and FPGAs, how many CPUs and NUMA nodes.

Amounts of a card are what its vendor's agent reports. `weight` says how many of 1,000 machines are of the kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts import names

GI: Final = 1 << 30


class Machine(NamedTuple):
    """Machines of one kind. `vendor` is what `node.koordinator.sh/gpu-vendor` says; `zones` are ids of NUMA nodes,
    `cores` what each of them has; `functions` are virtual functions of each NIC. `isolates`: shared GPUs, by HAMi-core.
    """

    name: str
    weight: int
    zones: tuple[int, ...]
    cores: int
    memory_gib: int
    vendor: str = ""
    model: str = ""
    cards: int = 0
    amounts: Mapping[str, int] = {}
    nics: int = 0
    functions: int = 0
    fpgas: int = 0
    threads: int = 2
    isolates: bool = False

    @property
    def cpus(self) -> int:
        """Logical CPUs."""
        return len(self.zones) * self.cores * self.threads


def _gpu(memory_gib: int) -> dict[str, int]:
    return {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: memory_gib * GI}


def _npu(cores: int, memory_gib: int) -> dict[str, int]:
    own = {names.NPU_CORE: cores, names.NPU_CPU: 7, names.NPU_DVPP: 100}
    return own | {names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: memory_gib * GI}


TWO: Final = (0, 1)
FOUR: Final = (0, 1, 2, 3)
SPARSE: Final = (0, 2)
"""Ids have gaps where a socket is empty."""

MACHINES: Final = (
    Machine("a100", 180, TWO, 32, 1024, "nvidia", "A100-SXM4-80GB", 8, _gpu(80), nics=4, functions=4),
    Machine("h100", 100, FOUR, 24, 2048, "nvidia", "H100-SXM5-80GB", 8, _gpu(80), nics=8, functions=4),
    Machine("t4", 120, TWO, 24, 384, "nvidia", "T4", 4, _gpu(16), isolates=True),
    Machine("npu-910b3", 80, FOUR, 24, 1536, "huawei", "Ascend-910B3", 8, _npu(20, 64), nics=4),
    Machine("npu-310p3", 40, TWO, 24, 512, "huawei", "Ascend-310P3", 8, _npu(8, 24)),
    Machine("mlu", 80, TWO, 32, 768, "cambricon", "MLU370", 4, _gpu(48)),
    Machine("xpu", 60, TWO, 32, 768, "baidu", "P800", 8, _gpu(96)),
    Machine("metax", 60, TWO, 32, 1024, "metax", "MXC500", 8, _gpu(64)),
    Machine("amd", 60, FOUR, 24, 1536, "amd", "MI300X", 8, _gpu(192), nics=4),
    Machine("dcu", 60, FOUR, 16, 512, "hygon", "K100", 8, _gpu(64)),
    Machine("fpga", 30, TWO, 24, 384, fpgas=2),
    Machine("rdma", 30, TWO, 32, 512, nics=2, functions=8),
    Machine("sparse", 20, SPARSE, 16, 256),
    Machine("one-thread", 20, TWO, 64, 512, threads=1),
    Machine("plain", 60, TWO, 32, 512),
)
