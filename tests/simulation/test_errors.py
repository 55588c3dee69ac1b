"""Errors that no fault explains are broken promises."""

from __future__ import annotations

import logging
from contextlib import closing
from unittest.mock import patch

import pytest
from tests.simulation.errors import is_odd, odd_errors
from tests.simulation.fault_injection import FaultInjector
from tests.simulation.faults import Fault
from tests.simulation.harness import build
from tests.simulation.laws import Pardon
from tests.simulation.planted import run_profiles
from tests.simulation.run import run_seed

from berth.bus.port import Message
from berth.cluster_writer.commands import Commands
from berth.telemetry.capture import Line
from berth.testing.simulation.journal import ERRORS_MAX, Entry

API_AWAY, CUT = Fault(0.0, "api away", for_s=5.0), Fault(0.0, "cut", "cluster-writer", for_s=5.0)


def told(message: str) -> Entry:
    """A line of level error."""
    return Entry(12.5, "cluster-writer-0#1", Line("error", "berth", message, {}))


def test_what_can_never_be_handled_is_told_and_what_cannot_be_now_is_not() -> None:
    logged = [
        told("writer: dead letter: cmd.refuse: RetryLaterError after 8 deliveries"),
        told("writer: dead letter: cmd.refuse: delivered 9 times"),
        told("writer: dead letter: cmd.refuse: reasons: too large"),
    ]
    found = odd_errors(each for each in logged if is_odd(each, [CUT, API_AWAY]))
    assert len(found) == 1
    assert found[0].startswith("failure: ")
    assert found[0].endswith("cmd.refuse: reasons: too large")


def test_a_handler_that_fails_by_itself_is_told() -> None:
    logged = [
        told("writer: cannot handle cmd.refuse (delivery 1)"),
        told("writer: dead letter: cmd.refuse: TypeError after 8 deliveries"),
    ]
    assert all(is_odd(each, [CUT]) for each in logged)
    assert [text.split(": ")[0] for text in odd_errors(logged)] == ["failure", "failure"]


def test_what_faults_explain_takes_no_place_of_what_they_do_not() -> None:
    harness = build(1, (), {}, log_level="error", specs=())
    harness.struck.append(CUT)
    writer = patch("berth.testing.simulation.journal.current_process_name", lambda: "cluster-writer-0#1")
    with closing(harness.world), harness.journal as journal, writer:
        log = logging.getLogger("berth.any")
        for number in range(ERRORS_MAX + 1):
            log.error("writer: dead letter: cmd.%d: delivered 9 times", number)
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
    assert any(text.startswith("failure: ") and "cannot handle" in text for text in found.violations)


def test_a_plan_that_was_rejected_is_named_so() -> None:
    assert odd_errors([told("the verifier rejected a plan: capacity")])[0].startswith("I14 rejected by the verifier: ")


def test_a_plugin_that_raises_is_a_failure_that_no_fault_explains() -> None:
    entry = told("a plugin raised: whoever it was asked about waits; please report this")
    assert is_odd(entry, [API_AWAY, CUT])
    assert odd_errors([entry])[0].startswith("failure: ")


DEAD = "writer: dead letter: cmd.refuse: delivered 9 times"
REFUSED = "writer: dead letter: cmd.refuse: RetryLaterError after 8 deliveries"
NOT_STORED = "writer: dead letter not stored, trying again: no answer"
REFUSES = "the API server does not carry out a request: it is repeated until its outcome is known"
AWAY = "cannot connect to Kubernetes, trying again"
HELD = "best-effort pods cannot be held"


def logged_after(seconds: float, message: str, *faults: Fault, process: str) -> list[Entry]:
    """What counts of an error that a process logs so long after faults began."""
    harness = build(1, (), {}, log_level="error", specs=())
    with closing(harness.world):
        injector = FaultInjector(harness)
        for fault in faults:
            with patch.object(injector, "_" + fault.kind.replace(" ", "_"), lambda _: None):
                injector._strike(fault)
        harness.world.run(seconds)
        harness.journal._take(Line("note", "test", "nothing", {}))
        with patch("berth.testing.simulation.journal.current_process_name", lambda: process):
            harness.journal._take(Line("error", "test", message, {}))
    return harness.journal.errors


@pytest.mark.parametrize(
    ("message", "fault", "seconds", "process"),
    [
        (DEAD, CUT, 10.0, "cluster-writer-0#1"),
        (DEAD, API_AWAY, 100.0, "cluster-writer-0#1"),
        (REFUSED, API_AWAY, 80.0, "cluster-writer-0#1"),
        (REFUSED, Fault(0.0, "twice", amount=0.5, for_s=5.0), 4.0, "cluster-writer-0#1"),
        (NOT_STORED, CUT, 10.0, "cluster-writer-0#1"),
        (REFUSES, API_AWAY, 10.0, "cluster-writer-0#1"),
        (AWAY, API_AWAY, 4.0, "cluster-watcher-0#1"),
        (HELD, Fault(0.0, "group gone", for_s=5.0), 4.0, "node-qos-enforcer-0#1"),
        ("difference found", CUT, 4.0, "auditor-0#1"),
    ],
)
def test_an_error_is_explained_by_a_fault_of_its_kind(message: str, fault: Fault, seconds: float, process: str) -> None:
    assert logged_after(seconds, message, fault, process=process) == []


@pytest.mark.parametrize(
    ("message", "faults", "seconds", "process"),
    [
        (DEAD, [], 10.0, "cluster-writer-0#1"),
        (DEAD, [CUT], 200.0, "cluster-writer-0#1"),
        (DEAD, [CUT], 10.0, "slo-manager-0#1"),
        (DEAD, [Fault(0.0, "kill", "placement-solver")], 10.0, "cluster-writer-0#1"),
        (DEAD, [Fault(0.0, "leader moved", "berth_quota", 3.0)], 10.0, "cluster-writer-0#1"),
        (REFUSED, [CUT], 10.0, "cluster-writer-0#1"),
        (REFUSED, [API_AWAY], 100.0, "cluster-writer-0#1"),
        (NOT_STORED, [API_AWAY], 10.0, "cluster-writer-0#1"),
        (REFUSES, [CUT], 10.0, "cluster-writer-0#1"),
        (REFUSES, [API_AWAY], 200.0, "cluster-writer-0#1"),
        (AWAY, [CUT], 4.0, "cluster-watcher-0#1"),
        (AWAY, [API_AWAY], 4.0, "quota-manager-0#1"),
        (HELD, [CUT], 4.0, "node-qos-enforcer-0#1"),
        ("difference found", [CUT], 4.0, "cluster-writer-0#1"),
    ],
)
def test_an_error_is_not_explained_by_what_it_says(
    message: str, faults: list[Fault], seconds: float, process: str
) -> None:
    assert len(logged_after(seconds, message, *faults, process=process)) == 1
