"""Bugs of gangs in the network."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from unittest.mock import patch

from berth.placement_solver.core.constraints import network_topology as constraint
from berth.placement_solver.core.verify import verifier
from berth.rules.network_topology.layers import ROOT

Planted = AbstractContextManager[object]


def lie_anywhere() -> Planted:
    """Nobody has to stay in a domain."""
    stack = ExitStack()
    constraint._limits_of.cache_clear()
    stack.callback(constraint._limits_of.cache_clear)  # what was compiled meanwhile is not for the next run
    stack.enter_context(patch.object(constraint, "must_gather_layer", lambda *_: ROOT))
    stack.enter_context(patch.object(verifier, "network_problems", lambda *_: iter(())))
    return stack
