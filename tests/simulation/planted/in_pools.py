"""Bugs of quota groups: their runtimes, their moves, and trees that have a pool of nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from berth.contracts.quota import QuotaGroup
from berth.placement_solver.core.constraints.quota_tree import QuotaTree
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.verify import verifier
from berth.placement_solver.core.verify.quotas import QuotaTallies


def pool_ignored() -> AbstractContextManager[object]:
    """Pods of a tree go to any node, and nobody looks at it again."""
    stack = ExitStack()
    stack.enter_context(patch.object(QuotaTree, "prefilter", lambda *_: None))
    stack.enter_context(patch.object(verifier, "tree_problems", lambda *_: iter(())))
    return stack


def share_unread() -> AbstractContextManager[object]:
    """The max of a group is its limit, whatever its runtime is."""
    return _read_as(lambda group: replace(group, runtime=group.max))


def parents_unchecked() -> AbstractContextManager[object]:
    """The runtimes of groups above bind nobody, although quota-manager is set so."""
    return _read_as(lambda group: replace(group, rules=replace(group.rules, checks_parents=False)))


def moved_alone() -> AbstractContextManager[object]:
    """A group that moves leaves what runs in it where it was, for the solver and for its verifier."""
    keep_shape = QuotaTallies._keep_shape

    def kept(self: QuotaTallies, view: Any) -> None:
        with patch.object(self, "_own", {}):
            keep_shape(self, view)

    stack = ExitStack()
    stack.enter_context(patch.object(Quotas, "_move_use", lambda *_: None))
    stack.enter_context(patch.object(QuotaTallies, "_keep_shape", kept))
    return stack


def _read_as(change: Callable[[QuotaGroup], QuotaGroup]) -> AbstractContextManager[object]:
    see = Quotas.see

    def seen(self: Quotas, tree: str, name: str, group: QuotaGroup | None) -> None:
        see(self, tree, name, None if group is None else change(group))

    return patch.object(Quotas, "see", seen)
