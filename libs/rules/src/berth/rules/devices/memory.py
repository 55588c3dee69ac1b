"""Memory of a share of a GPU: bytes from percent and percent from bytes.

A pod names one of the two; both are charged, each filled from the device that was chosen, so that percent and byte
requests can share one device without ever exceeding it. Both divisions round down (Koordinator's rule): the sum of
rounded parts never exceeds the rounded sum.
"""

from __future__ import annotations

from berth.rules.devices.columns import MEMORY, RATIO, Vector


def fill_memory(amounts: Vector, total: Vector) -> Vector | None:
    """``amounts`` with the missing one of memory and ratio filled from the device's ``total``; both given: unchanged.

    Returns None when the device has no total at all (unhealthy or gone): nothing can be filled from it.
    """
    if not any(total):
        return None
    ratio, memory, capacity = amounts[RATIO], amounts[MEMORY], total[MEMORY]
    if ratio and not memory:
        memory = ratio * capacity // 100
    elif memory and not ratio and capacity:
        ratio = memory * 100 // capacity
    else:
        return amounts
    return (amounts[0], ratio, memory, *amounts[3:])


def fits(amounts: Vector, total: Vector, free: Vector, filled: Vector) -> bool:
    """Whether one device can give ``amounts``, and the figures that ``filled`` adds to them.

    An added figure counts only if the device reports that resource: a device without a memory ratio is governed by
    its bytes.
    """
    for asked, need, capacity, left in zip(amounts, filled, total, free, strict=True):
        if need > left and (asked or capacity):
            return False
    return True


def serves(amounts: Vector, total: Vector, free: Vector) -> bool:
    """Whether one GPU can give ``amounts`` with memory filled: :func:`fill_memory` and :func:`fits` in one step."""
    if not any(free):
        return False
    for asked, left in zip(amounts, free):  # noqa: B905 - hot, equal by make
        if asked > left:
            return False
    ratio, memory, capacity = amounts[RATIO], amounts[MEMORY], total[MEMORY]
    if ratio and not memory:
        return ratio * capacity // 100 <= free[MEMORY]
    if memory and not ratio and total[RATIO]:
        return memory * 100 // capacity <= free[RATIO]
    return True
