"""Errors that no fault explains are broken promises."""

from __future__ import annotations

from tests.simulation.errors import odd_errors

from berth.telemetry.capture import Line
from berth.testing.simulation.journal import Entry


def told(message: str) -> Entry:
    return Entry(12.5, "cluster-writer-0#1", Line("error", "berth", message, {}))


def test_a_dead_letter_is_told_and_a_try_that_failed_is_not() -> None:
    logged = [told("writer: cannot handle cmd.refuse (delivery 1)"), told("writer: dead letter: cmd.refuse: too large")]
    assert [text.split(" ")[0] for text in odd_errors(logged)] == ["complaint:"]
    assert "dead letter: cmd.refuse" in odd_errors(logged)[0]


def test_a_plan_that_was_rejected_is_named_so() -> None:
    assert odd_errors([told("the verifier rejected a plan: room")])[0].startswith("I14 rejected by the verifier: ")
