"""Bugs of trees of quotas that have a pool of nodes."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from unittest.mock import patch

from berth.placement_solver.core.constraints.quota_tree import QuotaTree
from berth.placement_solver.core.verify import verifier


def pool_ignored() -> AbstractContextManager[object]:
    """Pods of a tree go to any node, and nobody looks at it again."""
    stack = ExitStack()
    stack.enter_context(patch.object(QuotaTree, "prefilter", lambda *_: None))
    stack.enter_context(patch.object(verifier, "tree_problems", lambda *_: iter(())))
    return stack
