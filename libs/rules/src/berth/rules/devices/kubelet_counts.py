"""Whole cards that kubelet picks.

A node whose status names a vendor's count (`nvidia.com/gpu`) has a device plugin, and kubelet gives its containers
cards of its own choice. A pod that asks for such a count there holds a number of cards, and nobody knows which, until
kubelet's word of it is known (`berth.rules.devices.kubelet_cards`). Kubelet in turn does not know which cards others
hold by minor. So no card is given out by minor beside a number, and none by number beside a card by minor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from berth.contracts import names
from berth.contracts.ledger import Grant
from berth.rules.gpu_request import FAMILY, WHOLE_CARDS

NUMBER: Final = "GPUs by number"
"""How texts call what a pod holds that asks for a vendor's count and has no record of which cards it has."""
DIVIDED: Final = "MIGMode"
"""Why a GPU is not given out whole or by percent: MIG divides it, and kubelet gives out its parts."""
GPU: Final = "gpu"
_DEVICES: Final = FAMILY | {names.RDMA, names.FPGA}


class Holder(Protocol):
    """What one holder takes: its request, and the things that it was granted; `by_kubelet`: kubelet has picked its
    cards, and they are known."""

    @property
    def amounts(self) -> Mapping[str, int]: ...
    @property
    def grants(self) -> Sequence[Grant]: ...
    @property
    def by_kubelet(self) -> bool: ...


def counts_shown(allocatable: Mapping[str, int]) -> frozenset[str]:
    """The vendors' counts that a node's status names; by each of them kubelet picks the cards."""
    return WHOLE_CARDS & allocatable.keys()


def asks_count_alone(amounts: Mapping[str, int]) -> bool:
    """Whether a request takes of devices nothing but whole cards by a vendor's count."""
    if _DEVICES.isdisjoint(amounts):
        return False
    asked = {name for name in _DEVICES & amounts.keys() if amounts[name] > 0}
    return bool(asked) and asked <= WHOLE_CARDS


def holds_number(amounts: Mapping[str, int], grants: Iterable[Grant]) -> bool:
    """Whether who asks for this and was granted that holds cards by number."""
    return asks_count_alone(amounts) and not any(grant.kind == GPU for grant in grants)


def number_of(amounts: Mapping[str, int]) -> int:
    """How many whole cards are asked for by vendors' counts."""
    return sum(amounts[name] for name in WHOLE_CARDS & amounts.keys())


def shown_at_zero(amounts: Mapping[str, int], allocatable: Mapping[str, int]) -> str:
    """The first device name that is asked for and that the node shows at 0: kubelet would refuse the pod. Empty: none.

    What the node does not name at all kubelet does not look at.
    """
    if _DEVICES.isdisjoint(amounts):
        return ""
    zeros = [name for name, amount in amounts.items() if amount > 0 and allocatable.get(name, 1) <= 0]
    return min((name for name in zeros if name in _DEVICES), default="")


def is_uncounted(holder: Holder, allocatable: Mapping[str, int]) -> bool:
    """Whether it holds cards by number, and by a count that the node does not show."""
    asked = {name for name in WHOLE_CARDS & holder.amounts.keys() if holder.amounts[name] > 0}
    return holds_number(holder.amounts, holder.grants) and not asked <= allocatable.keys()


def given_both_ways(arriving: Iterable[Holder], there: Iterable[Holder], allocatable: Mapping[str, int]) -> str:
    """Why these cannot come beside those, where kubelet picks the cards; empty: they can."""
    shown = counts_shown(allocatable)
    if not shown:
        return ""
    coming = list(arriving)
    everybody = [*coming, *there]
    counted = any(each.amounts.get(name, 0) > 0 for each in everybody if not each.by_kubelet for name in shown)
    if any(_by_minor(each) for each in coming) and counted:
        return "kubelet picks cards there, so that none can be given out by minor beside those that it has given"
    comes_counted = any(each.amounts.get(name, 0) > 0 for each in coming for name in shown)
    if comes_counted and any(_by_minor(each) and not _is_counted(each) for each in everybody):
        return "cards are held by minor there, and kubelet, which picks the cards, does not know of it"
    return ""


def _by_minor(holder: Holder) -> bool:
    return any(grant.kind == GPU for grant in holder.grants)


def _is_counted(holder: Holder) -> bool:
    return any(holder.amounts.get(name, 0) > 0 for name in WHOLE_CARDS)
