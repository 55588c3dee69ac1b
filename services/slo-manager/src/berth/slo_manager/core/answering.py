"""What people are told of a node: what it lends and why, and who leaves for its sake."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.contracts.names import LENT
from berth.contracts.node_audit import Departure, LendingAnswer
from berth.contracts.slo import NodeOffer, NodePod, NodeSLO
from berth.contracts.state import Node

DEPARTURES_MAX: Final = 50


def lending_answer(
    node: Node,
    *,
    strategy: NodeSLO | None,
    offer: NodeOffer | None,
    newest: NodeOffer | None,
    reported_s: float | None,
    entries: Iterable[NodePod],
    now_s: float,
) -> LendingAnswer:
    """Put together what is known of a node.

    Args:
        node: as STATE shows it.
        strategy: what SLO says of it; None: nothing.
        offer: what SLO says that it lends.
        newest: what the newest report alone comes to; None: nothing is offered, or the views are not complete.
        reported_s: when that report arrived.
        entries: those of its pods in SLO.
        now_s: unix time.
    """
    said = newest if newest is not None else offer
    return LendingAnswer(
        name=node.name,
        outcome="known",
        at=now_s,
        offer=offer,
        newest={} if newest is None else newest.offers,
        reported_at=reported_s or 0.0,
        shown={name: node.allocatable[name] for name in LENT if name in node.allocatable},
        strategies={} if strategy is None else strategy.strategies,
        departures=departures(entries)[:DEPARTURES_MAX],
        problems=[*([] if strategy is None else strategy.problems), *([] if said is None else said.problems)],
    )


def departures(entries: Iterable[NodePod]) -> list[Departure]:
    """Who was asked to leave, the newest first."""
    found = [
        Departure(
            holder=f"{entry.namespace}/{entry.name}",
            state=eviction.state,
            feature=eviction.feature,
            reason=eviction.reason,
            message=eviction.message,
            at=eviction.at,
            left=entry.left,
        )
        for entry in entries
        if (eviction := entry.eviction) is not None
    ]
    return sorted(found, key=lambda each: (-each.at, each.holder))
