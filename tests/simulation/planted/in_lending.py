"""Bugs of what nodes lend."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from unittest.mock import patch

from berth.placement_solver.core.lending import Lending
from berth.placement_solver.core.verify import verifier

Planted = AbstractContextManager[object]


def by_status_alone() -> Planted:
    """What the status of a node shows is lent, whatever is offered."""
    stack = ExitStack()
    stack.enter_context(patch.object(Lending, "_lowered", lambda self, node: node))
    stack.enter_context(patch.object(verifier, "lent_problems", lambda *_: iter(())))
    return stack
