"""What is taken from how many devices of one family.

Turns a normalised request (only the internal resource names) into amounts per device and a count, by Koordinator's rules. Whether the
set of names is an accepted one was decided before; here every combination has a meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.placement_solver.core.devices.columns import GPU, MEMORY, RATIO, Family, Vector

SHARED: Final = "koordinator.sh/gpu.shared"
MAX_DEVICES: Final = 1024


class Want(NamedTuple):
    """``amounts`` from each of ``count`` different devices of ``family``.

    ``shared``: less than a whole device is taken from each, or memory is named in bytes.
    """

    family: Family
    amounts: Vector
    count: int
    shared: bool = False


def gpu_want(normalised: Mapping[str, int]) -> Want | None:
    """The GPU part of a request, None if it names none.

    The count is ``gpu.shared`` if given, else ratio / 100 for a ratio of several whole devices, else one; amounts are divided by it
    and rounded down. A count above 1,024 is cut there: no node has as many devices, so the request fits nowhere either way.
    """
    amounts = GPU.vector(normalised)
    if not any(amounts):
        return None
    ratio = amounts[RATIO]
    count = max(0, normalised.get(SHARED, 0))
    if count == 0:
        count = ratio // 100 if ratio > 100 and ratio % 100 == 0 else 1
    each = [amount // count for amount in amounts]
    if ratio:
        each[MEMORY] = 0
    return Want(GPU, tuple(each), min(count, MAX_DEVICES), shared=each[RATIO] < 100)


def counted_want(family: Family, amount: int) -> Want | None:
    """A request of RDMA or FPGA percent without a hint: several whole devices, or one part of a device."""
    if amount <= 0:
        return None
    if amount > 100 and amount % 100 == 0:
        return Want(family, (100,), min(amount // 100, MAX_DEVICES))
    return Want(family, (amount,), 1, shared=amount < 100)
