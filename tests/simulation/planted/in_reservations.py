"""Bugs in whom Reservations make leave, and in who borrows of them. The verifier makes the solver's mistakes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

from tests.simulation.planted.in_writer import together

from berth.placement_solver.core.displacers import reservations
from berth.rules import reservation_displaces

Planted = AbstractContextManager[object]


def anybody_leaves() -> Planted:
    """Whatever has the lower priority leaves for a Reservation, whatever its author or schedule has said."""

    def displaced_by(*_: object) -> str:
        return reservation_displaces.LOWER_PRIORITY

    return together(
        patch.object(reservation_displaces, "displaced_by", displaced_by),
        patch.object(reservations, "displaced_by", displaced_by),
    )
