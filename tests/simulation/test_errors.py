"""Errors that no fault explains are broken promises."""

from __future__ import annotations

import logging
from contextlib import closing
from unittest.mock import patch

from tests.simulation.errors import odd_errors
from tests.simulation.harness import build
from tests.simulation.laws import Pardon
from tests.simulation.planted import run_profiles
from tests.simulation.run import run_seed

from berth.bus.port import Message
from berth.cluster_writer.commands import Commands
from berth.telemetry.capture import Line
from berth.testing.simulation.journal import ERRORS_MAX, Entry


def told(message: str) -> Entry:
    """A line of level error."""
    return Entry(12.5, "cluster-writer-0#1", Line("error", "berth", message, {}))


def test_what_can_never_be_handled_is_told_and_what_cannot_be_now_is_not() -> None:
    logged = [
        told("writer: dead letter: cmd.refuse: RetryLaterError after 8 deliveries"),
        told("writer: dead letter: cmd.refuse: delivered 9 times"),
        told("writer: dead letter: cmd.refuse: reasons: too large"),
    ]
    found = odd_errors(logged)
    assert len(found) == 1
    assert found[0].startswith("complaint: ")
    assert found[0].endswith("cmd.refuse: reasons: too large")


def test_a_handler_that_fails_by_itself_is_told() -> None:
    logged = [
        told("writer: cannot handle cmd.refuse (delivery 1)"),
        told("writer: dead letter: cmd.refuse: TypeError after 8 deliveries"),
    ]
    assert [text.split(": ")[0] for text in odd_errors(logged)] == ["complaint", "complaint"]


def test_what_faults_explain_takes_no_place_of_what_they_do_not() -> None:
    harness = build(1, (), {}, log_level="error", specs=())
    with closing(harness.world), harness.journal as journal:
        log = logging.getLogger("berth.any")
        for number in range(ERRORS_MAX + 1):
            log.error("writer: dead letter: cmd.%d: RetryLaterError after 8 deliveries", number)
        log.error("writer: cannot handle cmd.refuse (delivery 1)")
    assert len(odd_errors(journal.errors)) == 1
    counts = harness.observer.verdicts
    assert counts.judgements["errors"] == ERRORS_MAX + 2
    assert counts.excuses == {("errors", Pardon.DEAD_LETTER): ERRORS_MAX + 1}


def test_a_bug_of_a_handler_is_found() -> None:
    real = Commands.handle

    async def handle(self: Commands, message: Message) -> None:
        if message.deliveries == 1:
            raise TypeError("a bug")
        await real(self, message)

    with patch.object(Commands, "handle", handle):
        found = run_seed(0, profile=run_profiles.BOOKINGS)
    assert any(text.startswith("complaint: ") and "cannot handle" in text for text in found.violations)


def test_a_plan_that_was_rejected_is_named_so() -> None:
    assert odd_errors([told("the verifier rejected a plan: room")])[0].startswith("I14 rejected by the verifier: ")
