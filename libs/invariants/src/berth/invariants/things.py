"""How much there is at most of one thing that is granted within a node, where all of its kind have the same."""

from __future__ import annotations

from typing import Final

from berth.contracts import names
from berth.contracts.grants import COUNT

WHOLE: Final = dict.fromkeys((names.GPU_CORE, names.GPU_MEMORY_RATIO, names.RDMA, names.FPGA), 100) | {COUNT: 1}
"""By resource: percents of a device, and one of what is held whole or not at all."""
