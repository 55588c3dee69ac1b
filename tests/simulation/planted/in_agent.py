"""Bugs of the node agent."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from berth.node_qos_enforcer.executor.applying import Applier, Place


def held_once() -> AbstractContextManager[object]:
    """What was written is taken for what is: a group that kubelet makes anew stays free."""
    real = Applier.place

    def looked_at_never(self: Applier, layout: Any, ref: Any) -> Place | None:
        found = real(self, layout, ref)
        if found is not None:
            found = self._places[ref] = found._replace(turn=-1)
        return found

    return patch.object(Applier, "place", looked_at_never)
