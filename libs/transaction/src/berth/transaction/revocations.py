"""Revocations: a quota group that has been over its runtime for too long gives back, and nobody waits for it.

In LEDGER such a group stands where a beneficiary does: under a key of its own, as a nomination that takes nothing. It
is settled once all its victims are leaving or have left. It can be taken back at any time, by a deletion of its key.
"""

from __future__ import annotations

from typing import Final

from berth.contracts.ledger import Decision
from berth.transaction.claims import Name

KIND: Final = "quota"
"""Of the decision."""


def name_of_group(tree: str, group: str) -> Name:
    """Under which name a group stands: no Kubernetes object has a colon in its own."""
    return ("", f"{KIND}:{tree}:{group}")


def is_revocation(decision: Decision) -> bool:
    """Whether a group gives back under this nomination, and nobody waits."""
    return decision.kind == KIND


def group_of(name: Name) -> tuple[str, str] | None:
    """Tree and name of the group that stands under a name; None: no group does."""
    kind, _, rest = name[1].partition(":")
    tree, colon, group = rest.partition(":")
    return (tree, group) if not name[0] and kind == KIND and colon else None
