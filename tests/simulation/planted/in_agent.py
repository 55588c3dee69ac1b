"""Bugs of the node agent."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from unittest.mock import patch

from berth.node_qos_enforcer.executor.applying import Applier, _Undone
from berth.node_qos_enforcer.executor.due import Due
from berth.node_qos_enforcer.executor.writing import Executor


def held_once() -> AbstractContextManager[object]:
    """What was written is taken for what is: a group that kubelet makes anew stays free."""
    return patch.object(Due, "refs", lambda self: list(self._open))


def left_behind() -> AbstractContextManager[object]:
    """What nothing wants any more stays as it was written."""
    stack = ExitStack()
    stack.enter_context(patch.object(Applier, "_undone", lambda *_: _Undone([], set())))
    stack.enter_context(patch.object(Executor, "_give_back", lambda self, kept: ""))
    return stack
