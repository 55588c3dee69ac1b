"""Errors that no fault explains are broken promises."""

from __future__ import annotations

from tests.simulation.errors import odd_errors

from berth.telemetry.capture import Line
from berth.testing.simulation.journal import Entry


def told(message: str) -> Entry:
    return Entry(12.5, "cluster-writer-0#1", Line("error", "berth", message, {}))


def test_what_can_never_be_handled_is_told_and_a_try_that_failed_is_not() -> None:
    logged = [
        told("writer: cannot handle cmd.refuse (delivery 1)"),
        told("writer: dead letter: cmd.refuse: TimeoutError after 8 deliveries"),
        told("writer: dead letter: cmd.refuse: reasons: too large"),
    ]
    found = odd_errors(logged)
    assert len(found) == 1
    assert found[0].startswith("complaint: ")
    assert found[0].endswith("cmd.refuse: reasons: too large")


def test_a_plan_that_was_rejected_is_named_so() -> None:
    assert odd_errors([told("the verifier rejected a plan: room")])[0].startswith("I14 rejected by the verifier: ")
