"""Whom a Reservation that waits for its place makes leave.

Who sets its priority means it: pods of lower priority leave. Without a word it has the highest there is, which is how
its capacity is kept and nothing that anybody has asked for, so nobody leaves. Of a Reservation that a schedule has made
the schedule says it.
"""

from __future__ import annotations

from typing import Final

from berth.contracts.state import Pod, Reservation
from berth.rules.preemption import NEVER, why_protected
from berth.rules.reservation_borrowers import ignores_reservations
from berth.rules.reservation_window import window_of

NOBODY: Final = "Nobody"
BORROWERS: Final = "Borrowers"
"""Pods of lower priority that ask to borrow what is reserved: they count on having to leave."""
LOWER_PRIORITY: Final = "LowerPriority"
"""Pods of lower priority."""
WORDS: Final = (NOBODY, BORROWERS, LOWER_PRIORITY)


def displaced_by(reservation: Reservation) -> str:
    """One of `WORDS`."""
    if reservation.template.preemption_policy == NEVER:
        return NOBODY
    window = window_of(reservation.annotations)
    if window is not None and window.displaces != LOWER_PRIORITY:
        return BORROWERS if window.displaces == BORROWERS else NOBODY
    return LOWER_PRIORITY if reservation.is_priority_set else NOBODY


def why_spared(reservation: Reservation, pod: Pod) -> str:
    """Why a pod does not leave for a Reservation, as a predicate of the pod; empty: it may be made to."""
    whom = displaced_by(reservation)
    if whom == NOBODY:
        return "leaves for no Reservation that displaces nobody"
    if protected := why_protected(pod):
        return f"is protected: {protected}"
    if pod.template.priority >= reservation.template.priority:
        return "is not of lower priority"
    if whom == BORROWERS and not ignores_reservations(pod.template.labels):
        return "does not borrow, and only borrowers leave for it"
    return ""
