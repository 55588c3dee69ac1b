"""Which resources a device of each family has, as columns of an integer vector.

The allocator runs for every pod with a device, so amounts are tuples of integers with a fixed meaning per place
instead of dictionaries. A family is a device type of the Device object; every accelerator (GPU, NPU, MLU) is of type
``gpu``. A resource that a device does not report is 0 in its vector, so a request for it never fits: silence is not
taken for plenty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from berth.contracts import names

Vector: TypeAlias = tuple[int, ...]

CORE: Final = 0
RATIO: Final = 1
MEMORY: Final = 2
NPU: Final = 3


class Family(NamedTuple):
    """A device type and the resource name behind each place of its vectors."""

    name: str
    columns: tuple[str, ...]

    @property
    def zero(self) -> Vector:
        """The vector of nothing."""
        return (0,) * len(self.columns)

    def vector(self, resources: Mapping[str, int]) -> Vector:
        """Amounts by name as a vector; names outside the family are left out, negative amounts count as 0."""
        get = resources.get
        return tuple([max(0, get(name, 0)) for name in self.columns])

    def resources(self, vector: Vector) -> dict[str, int]:
        """A vector as amounts by name, without the zeros."""
        return {name: amount for name, amount in zip(self.columns, vector, strict=True) if amount}


GPU: Final = Family(
    "gpu",
    (names.GPU_CORE, names.GPU_MEMORY_RATIO, names.GPU_MEMORY, names.NPU_CORE, names.NPU_CPU, names.NPU_DVPP),
)
RDMA: Final = Family("rdma", (names.RDMA,))
FPGA: Final = Family("fpga", (names.FPGA,))
FAMILIES: Final[Mapping[str, Family]] = {family.name: family for family in (GPU, RDMA, FPGA)}
