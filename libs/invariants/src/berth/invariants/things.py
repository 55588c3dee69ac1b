"""Things that are granted within a node: how much there is of one at most, and which promise it breaks to give more."""

from __future__ import annotations

from typing import Final

from berth.contracts import names
from berth.contracts.grants import COUNT, CPU, VF

WHOLE: Final = dict.fromkeys((names.GPU_CORE, names.GPU_MEMORY_RATIO, names.RDMA, names.FPGA), 100) | {COUNT: 1}
"""By resource: percents of a device, and one of what is held whole or not at all."""
GPU: Final = "gpu"
"""Cards and chips of every vendor."""
_PROMISES: Final = {CPU: "I23", VF: "I24"}


def promise_of(kind: str) -> str:
    """That each of its kind is given out once, or up to a whole."""
    return _PROMISES.get(kind, "I1")
