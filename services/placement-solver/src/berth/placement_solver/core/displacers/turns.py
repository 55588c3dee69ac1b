"""May a pod be planned while others leave for it? (docs/evictions.md, E1, E5, E6)"""

from __future__ import annotations

from enum import Enum

from berth.contracts.state import Pod, Reservation
from berth.rules.eviction_notes import plans_let_go
from berth.rules.preemption import leaves_by_itself
from berth.transaction.book import FINISHED_PHASES, Book
from berth.transaction.claims import Name


class Turn(Enum):
    """What may be planned for an object that waits."""

    NOT_YET = "not yet"
    """Nothing: it is decided, or victims for it have not begun to leave, or carry a mark that has to be taken back."""
    IF_FREE = "if free"
    """A decision on capacity that is free: nobody else has to leave."""
    ANYHOW = "anyhow"
    """A decision, or a nomination."""


def turn_of(book: Book, name: Name, obj: Pod | Reservation) -> Turn:
    """What may be planned for `obj`, which waits under this name."""
    turn = Turn.ANYHOW
    decision = book.open_decision(name)
    if decision is not None:
        nomination = book.nominations.of(name)
        if nomination is None or not decision.nominates or decision.uid != obj.uid:
            return Turn.NOT_YET
        if book.staying_victims(nomination):
            return Turn.NOT_YET
        if book.remaining_victims(nomination):
            turn = Turn.IF_FREE
    let_go = plans_let_go(obj.template.annotations if isinstance(obj, Pod) else obj.annotations)
    for victim, mark in book.marks.leaving_for(obj.uid):
        pod = book.pods.get(victim)
        if pod is not None and pod.phase in FINISHED_PHASES:
            continue  # it has left by itself, and nobody deletes it any more
        if pod is not None and leaves_by_itself(pod):
            continue  # a mark that somebody has made up
        if pod is None or not pod.deleting:
            return Turn.NOT_YET
        if mark.plan not in let_go:
            turn = Turn.IF_FREE
    return turn
