"""Bugs of Reservations that are members of gangs."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from unittest.mock import patch

from berth.contracts.state import Pod
from berth.placement_solver.cluster_view import waiting
from berth.placement_solver.core.verify import gangs as verifier
from berth.rules.gang_member import Member, gang_id_of

Planted = AbstractContextManager[object]


def go_alone() -> Planted:
    """A Reservation is in no gang, whatever its template says: it does not wait for the others."""
    stack = ExitStack()
    stack.enter_context(patch.object(waiting, "counts_as_member", lambda obj: isinstance(obj, Pod)))
    stack.enter_context(patch.object(verifier, "gang_id_of", _of_pods))
    return stack


def _of_pods(obj: Member) -> str:
    return gang_id_of(obj) if isinstance(obj, Pod) else ""
