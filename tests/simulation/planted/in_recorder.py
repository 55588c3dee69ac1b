"""Bugs of what plans say that they were made from, and of what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from unittest.mock import patch

from berth.contracts.round import Ground
from berth.placement_solver import origins
from berth.recorder.shell import Shell

Planted = AbstractContextManager[object]


def order_by_name() -> Planted:
    """Plans tell the names of nodes in the order of the alphabet, and not as their solver looks at them."""
    named = origins.named

    def sorted_names(ground: Ground, nodes: Sequence[str]) -> Ground:
        return named(ground, sorted(nodes))

    def told(ground: Ground, nodes: Sequence[str], before: object = None) -> Ground:
        return origins_told(ground, sorted(nodes))

    origins_told = origins.told
    return patch.multiple(origins, named=sorted_names, told=told)


def goes_on_after_a_failure() -> Planted:
    """What could not be written is skipped, and the run goes on as if nothing were missing."""

    def end(self: Shell, why: str) -> None:
        self.taking.taken()

    return patch.object(Shell, "_end", end)
