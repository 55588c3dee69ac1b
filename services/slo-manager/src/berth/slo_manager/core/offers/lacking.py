"""What of an offer its node does not show, and whether that is worth a write.

Compared is with what the node shows, so that a kubelet which registers anew and shows 0 is put right. A change that is
small is written once the last write is old enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts.names import ANNOTATION_ORIGIN_ALLOCATABLE, CPU, LENT, MEMORY
from berth.contracts.slo import NodeOffer
from berth.contracts.state import Node
from berth.resources.amounts import format_amount
from berth.rules.node_strategies.colocation import Colocation
from berth.slo_manager.core.offers.difference import differs, differs_at_all
from berth.slo_manager.core.offers.origin import origin_text, read_origin

_OF: Final = {name: MEMORY if name.endswith(MEMORY) else CPU for name in LENT}

Rank = tuple[float, float]


class Lacking(NamedTuple):
    """What to write. `rank`: falls go first, then what changes the largest part of the node. `is_bare`: the node shows
    nothing that is lent."""

    resources: Mapping[str, str | None]
    annotations: Mapping[str, str | None]
    written: Mapping[str, int]
    rank: Rank
    is_bare: bool


def lacking(node: Node, offer: NodeOffer, strategy: Colocation, now_s: float) -> Lacking | None:
    """What the node is to be asked to show; None: nothing.

    A node that has nothing to lend and shows nothing is not touched.
    """
    wanted = {name: offer.offers[name].amount for name in LENT if name in offer.offers}
    shown = [_said(amounts, wanted) for amounts in (node.allocatable, node.capacity)]
    noted = read_origin(node.annotations)
    has_note = ANNOTATION_ORIGIN_ALLOCATABLE in node.annotations
    is_noted = bool(wanted) or has_note
    is_bare = not any(each.get(name) for each in shown for name in LENT)
    if is_bare and not has_note and not any(wanted.values()):
        return None
    changed = any(differs_at_all(each, wanted, LENT) for each in shown) or (is_noted and noted != offer.origin)
    if not changed:
        return None
    threshold = strategy.resource_diff_threshold
    is_large = any(differs(each, wanted, name, threshold) for each in shown for name in LENT) or (
        is_noted and any(differs(noted, offer.origin, name, threshold) for name in offer.origin)
    )
    if not is_large and now_s - offer.written_at <= strategy.update_time_threshold_seconds:
        return None
    changes = [
        (wanted.get(name, 0) - (each.get(name) or 0)) / max(node.capacity.get(_OF[name], 0), 1)
        for each in shown
        for name in LENT
    ]
    return Lacking(
        resources={name: format_amount(name, wanted[name]) if name in wanted else None for name in LENT},
        annotations={ANNOTATION_ORIGIN_ALLOCATABLE: origin_text(offer.origin)} if is_noted else {},
        written=wanted,
        rank=(float(min(changes) >= 0), -max(map(abs, changes))),
        is_bare=is_bare,
    )


def _said(amounts: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int | None]:
    """What is shown of what is lent; 0 where nothing is wanted is nothing: kubelet turns one into the other."""
    return {name: amounts[name] for name in LENT if name in amounts and (amounts[name] or name in wanted)}
