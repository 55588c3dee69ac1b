"""A Reservation that is placed comes to hold more: a second decision under its own key, carried out in place (R18).

First its status shows the larger amounts, then the annotation names the plan. In between the decision still stands for
what it grows to, so that neither order of reading gives the difference away. The plan that the decision follows is
compared: one that another growth has overtaken is carried out by nobody.
"""

from __future__ import annotations

from berth.contracts.ledger import Decision
from berth.contracts.state import Pod, Reservation
from berth.resources.amounts import Amounts
from berth.rules.reservation_resize import growth, resized_amounts


def is_due(decision: Decision, seen: Pod | Reservation) -> bool:
    """Whether the object is still to be bound; or to grow, where the decision says so."""
    if not decision.grows:
        return not seen.node
    return seen.node == decision.node and seen.plan == decision.grows


def growing(decision: Decision, seen: Pod | Reservation | None) -> Amounts:
    """What its status is to show more of."""
    if not isinstance(seen, Reservation) or not decision.grows:
        return {}
    return growth(seen.allocatable, decision.allocation.amounts)


def not_wanted(decision: Decision, seen: Pod | Reservation) -> str:
    """Why it is not to grow so far any more; empty: it is, or it is not about that.

    A request that is on its way when the key is edited is refused, for it is guarded by the version that was judged.
    Who fences Reservations goes by the key, too, so nothing is sent that the key does not ask for.
    """
    more = growing(decision, seen)
    wanted = resized_amounts(seen.annotations)[0] if more and isinstance(seen, Reservation) else {}
    less = [name for name, amount in sorted(more.items()) if wanted.get(name, 0) < amount]
    return f"it is not to hold so much {less[0]} any more" if less else ""
