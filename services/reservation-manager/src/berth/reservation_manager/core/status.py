"""The status that belongs to a life: phase, users, amounts, conditions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from berth.contracts.kube import ReservationCondition
from berth.contracts.state import Reservation
from berth.reservation_manager.core.life import READY, Life, Phase
from berth.resources.amounts import format_amounts
from berth.rules.reservation_resize import given_back, resized_amounts


def status_of(reservation: Reservation, life: Life, at: str) -> dict[str, Any]:
    """The status to be merged into the object. `at` is now as RFC 3339 text."""
    status: dict[str, Any] = {"phase": life.phase.value, "conditions": conditions_of(reservation.conditions, life, at)}
    if life.phase is not Phase.FAILED:
        # The status is merged into what is there: what nobody draws on any more goes on being shown unless it is named.
        if smaller := given_back(reservation.allocatable, resized_amounts(reservation.annotations)[0]):
            status["allocatable"] = format_amounts(smaller)
        status["allocated"] = format_amounts(dict.fromkeys(reservation.allocated, 0) | life.allocated)
        status["currentOwners"] = [
            {"namespace": owner.namespace, "name": owner.name, "uid": owner.uid} for owner in life.owners
        ]
    return status


def conditions_of(known: Iterable[ReservationCondition], life: Life, at: str) -> list[dict[str, str]]:
    """The conditions after the change: Scheduled stays as it was, Ready says what happened."""
    ready = {
        "type": READY,
        "status": "True" if life.phase is Phase.AVAILABLE else "False",
        "reason": life.reason,
        "lastProbeTime": at,
        "lastTransitionTime": at,
    }
    kept = [_plain(condition) for condition in known if condition.type != READY]
    before = next((condition for condition in known if condition.type == READY), None)
    if before is not None and before.status == ready["status"] and before.last_transition_time:
        ready["lastTransitionTime"] = before.last_transition_time
    return [*kept, ready]


def _plain(condition: ReservationCondition) -> dict[str, str]:
    fields = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastProbeTime": condition.last_probe_time,
        "lastTransitionTime": condition.last_transition_time,
    }
    return {name: value for name, value in fields.items() if value}
