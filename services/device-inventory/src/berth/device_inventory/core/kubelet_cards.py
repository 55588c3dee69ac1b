"""Which cards kubelet has picked, by uid of the pod: what a report says that containers hold, in minors.

A pod counts with all its containers, and only if each card is known: a part of a card, as plugins that share cards
hand out, is none of its minors. Where two pods seem to hold one card, neither counts.
"""

from __future__ import annotations

from collections import Counter

from berth.contracts.node_report import NodeReport
from berth.rules.devices.kubelet_counts import GPU
from berth.rules.gpu_request import WHOLE_CARDS

HELD = "held"
"""The part of a report that says what containers hold."""


def kubelet_cards(report: NodeReport) -> dict[str, list[int]]:
    """Minors by uid. Plugins call a card by its id, or by its PCI address."""
    if HELD not in report.parts:
        return {}
    minors: dict[str, int] = {}
    for each in report.devices:
        if each.kind == GPU:
            minors |= {name: each.minor for name in (each.id, each.bus) if name}
    found: dict[str, set[int | None]] = {}
    for holder in report.held:
        for name, ids in holder.devices.items():
            if holder.uid and name in WHOLE_CARDS:
                found.setdefault(holder.uid, set()).update(map(minors.get, ids))
    holders = Counter(minor for held in found.values() for minor in held)
    cards: dict[str, list[int]] = {}
    for uid, held in sorted(found.items()):
        known = sorted(minor for minor in held if minor is not None)
        if known and len(known) == len(held) and all(holders[minor] == 1 for minor in known):
            cards[uid] = known
    return cards
