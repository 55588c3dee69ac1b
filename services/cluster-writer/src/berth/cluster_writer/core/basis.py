"""Is the view as new as the one that a decision was made on (R13)?

Pods and Reservations take the capacity of the same nodes, so both count: a view that is late in either kind may still
show a former holder of what the decision takes. One stream carries both, but while STATE is written anew one kind is
complete before the other.
"""

from __future__ import annotations

from berth.contracts.ledger import Decision
from berth.transaction.book import Book


def is_late(book: Book, decision: Decision) -> bool:
    """Whether the view is older than the solver's, in the decision's own kind or in the other."""
    if book.through((decision.namespace, decision.name)) < decision.basis:
        return True
    other = book.complete["reservations" if decision.namespace else "pods"]
    # A kind that is not installed any more is complete through no version at all: nothing of it holds capacity.
    is_absent = other.is_known and other.version == 0
    return other.version < decision.other_basis and not is_absent
