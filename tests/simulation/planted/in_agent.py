"""Bugs of the node agent."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from berth.node_qos_enforcer.control import Control
from berth.node_qos_enforcer.core.plan import Held, Plan


def held_once() -> AbstractContextManager[object]:
    """What was written is taken for what is: a group that kubelet makes anew stays free."""
    real = Control.apply
    written: dict[Control, Plan] = {}

    def apply(self: Control, plan: Plan, held: Held) -> Any:
        if written.get(self) == plan:
            return ()
        written[self] = plan
        return real(self, plan, held)

    return patch.object(Control, "apply", apply)
