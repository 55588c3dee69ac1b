"""Bugs of what solvers make of answers about prices and bounds, and of the bucket that has their tables."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

from berth.placement_solver import bounding
from berth.placement_solver.core.prices import keeping
from berth.placement_solver.core.prices.keeping import PriceKeeping
from berth.placement_solver.price_tables import PriceTables

Planted = AbstractContextManager[object]


def absurd_are_taken() -> Planted:
    """Whatever the price maker says holds."""
    return patch.object(keeping, "refusal_of", lambda *_: None)


def absurd_bounds_are_told() -> Planted:
    """Whatever the optimiser says is a bound."""
    return patch.object(bounding, "refusal_of", lambda *_: "")


def lost_tables_stay_lost() -> Planted:
    """Who has written a table takes it to be there for ever."""
    real = PriceTables.reset

    def reset(self: PriceTables) -> None:
        written = self._written
        real(self)
        self._written = written

    return patch.multiple(PriceTables, reset=reset, again=lambda *_: None)


def versions_are_reused() -> Planted:
    """A version counts the tables of one life of a solver."""

    def hold_since(self: PriceKeeping, now_ms: int) -> None:
        self.version = 1 if self.version > 3 else self.version + 1
        self.since_ms = now_ms

    return patch.object(PriceKeeping, "_hold_since", hold_since)
