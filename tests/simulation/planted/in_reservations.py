"""Bugs in whom Reservations make leave, and in who borrows of them. The verifier makes the solver's mistakes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

from tests.simulation.planted.in_writer import together

from berth.cluster_writer.bind_requests import BindRequests
from berth.contracts.ledger import Decision
from berth.kube import resources
from berth.kube.answer import Answer
from berth.placement_solver.core import growths
from berth.placement_solver.core.displacers import reservations
from berth.placement_solver.core.verify import Verifier
from berth.reservation_manager.core.pacing import StatusPace
from berth.rules import reservation_displaces
from berth.rules.records.borrowed import Borrowed
from berth.transaction import claims
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


def grown_blindly() -> Planted:
    """A Reservation grows whatever its node has free."""
    return together(
        patch.object(growths, "_beyond", lambda *_: {}), patch.object(Verifier, "check_growth", lambda *_: [])
    )


def growth_unclaimed() -> Planted:
    """What a Reservation grows to is not its own before its status shows it."""
    real = claims.of_reservation
    return patch.object(claims, "of_reservation", lambda reservation, decision=None: real(reservation))


def growth_named_first() -> Planted:
    """The annotation names the plan by which a Reservation grows before its status shows the amounts."""

    async def named_first(self: BindRequests, decision: Decision, version: int) -> Answer:
        guard = {"uid": decision.uid, "resourceVersion": str(version)}
        body = {"metadata": {**guard, "annotations": decision.annotations}}
        return await self._api.patch(resources.RESERVATIONS, "", decision.name, body)

    return patch.object(BindRequests, "_send_growth", named_first)


def anybody_leaves() -> Planted:
    """Whatever has the lower priority leaves for a Reservation, whatever its author or schedule has said."""

    def displaced_by(*_: object) -> str:
        return reservation_displaces.LOWER_PRIORITY

    return together(
        patch.object(reservation_displaces, "displaced_by", displaced_by),
        patch.object(reservations, "displaced_by", displaced_by),
    )
