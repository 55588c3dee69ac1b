"""What is taken from how many devices of one family.

Whether a request is accepted, and how it is divided over cards, is said in ``berth.rules``; here it becomes a vector
and a count. RDMA and FPGA requests have rules of their own: they may be counts, or ask for every device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.placement_solver.core.devices.columns import GPU, RATIO, Family, Vector
from berth.placement_solver.core.devices.slots import NoRoom
from berth.rules.gpu_request import per_card

MAX_DEVICES: Final = 1024
APPLY_FOR_ALL: Final = "ApplyForAll"
REQUESTS_AS_COUNT: Final = "RequestsAsCount"
DEVICE_LEVEL: Final = "DeviceLevel"


class Want(NamedTuple):
    """``amounts`` from each of ``instances`` different devices of ``family``.

    ``shared``: less than a whole device is taken from each, or memory is named in bytes.
    """

    family: Family
    amounts: Vector
    instances: int
    shared: bool = False


def gpu_want(normalised: Mapping[str, int]) -> Want | None:
    """The GPU part of a normalised request, None if there is none.

    More than 1,024 cards are cut to that many: no node has them, so the request fits nowhere either way.
    """
    if not any(GPU.vector(normalised)):
        return None
    cards = per_card(normalised)
    amounts = GPU.vector(cards.each)
    return Want(GPU, amounts, min(cards.count, MAX_DEVICES), shared=cards.shared or amounts[RATIO] == 0)


def counted_want(
    family: Family, amount: int, *, strategy: str = "", exclusive: str = "", matching: int = 0
) -> Want | NoRoom:
    """A request of RDMA or FPGA, ``amount`` in percent of a device or, by strategy, a number of devices.

    ``strategy`` and ``exclusive`` come from the pod's allocate hint; ``matching`` is how many devices of the node
    pass its selector and is needed for ``ApplyForAll``, which takes the same amount of every one.
    """
    if amount > 100 and amount % 100 == 0:
        return Want(family, (100,), min(amount // 100, MAX_DEVICES))
    if strategy == APPLY_FOR_ALL:
        if matching < 1:
            return NoRoom(f"Insufficient {family.name} devices", unresolvable=True)
        return Want(family, (amount,), matching, shared=amount < 100)
    if strategy == REQUESTS_AS_COUNT:
        each = 100 if exclusive == DEVICE_LEVEL else 1
        return Want(family, (each,), min(amount, MAX_DEVICES), shared=each < 100)
    return Want(family, (amount,), 1, shared=amount < 100)
