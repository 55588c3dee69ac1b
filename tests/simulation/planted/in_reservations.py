"""Bugs in whom Reservations make leave, and in who borrows of them. The verifier makes the solver's mistakes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

from tests.simulation.planted.in_writer import together

from berth.placement_solver.core.displacers import reservations
from berth.reservation_manager.core.pacing import StatusPace
from berth.rules import reservation_displaces
from berth.rules.records.borrowed import Borrowed
from berth.transaction.owners import Owners

Planted = AbstractContextManager[object]


def told_at_once() -> Planted:
    """The status of a Reservation is written whenever it is another one."""
    return patch.object(StatusPace, "admit", lambda *_, **__: True)


def loans_unwritten() -> Planted:
    """A bind does not say what its pod borrows."""
    return patch.object(Borrowed, "write", lambda *_: {})


def loans_forgotten() -> Planted:
    """Without the decision nobody believes what a pod borrows."""
    return patch.object(Owners, "lends", lambda *_: False)


def anybody_leaves() -> Planted:
    """Whatever has the lower priority leaves for a Reservation, whatever its author or schedule has said."""

    def displaced_by(*_: object) -> str:
        return reservation_displaces.LOWER_PRIORITY

    return together(
        patch.object(reservation_displaces, "displaced_by", displaced_by),
        patch.object(reservations, "displaced_by", displaced_by),
    )
