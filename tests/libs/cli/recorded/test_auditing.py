"""Plans made again from what was taken down: the same to the last byte, or what differs, or why that is not known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.services.worlds.solver.recorded import STREAMS, Arrivals, RecordedRun, audited

from berth.cli.recorded.auditing import Audit, Verdict
from berth.contracts import buckets, subjects
from berth.contracts.base import Message
from berth.contracts.codec import decode, encode
from berth.contracts.ledger import Decision, Plan
from berth.recording.records import AnyRecord, Began, Entered
from berth.testing.builders import pod


def outcomes(found: list[Verdict]) -> list[str]:
    return [each.outcome for each in found]


def rewritten(records: list[AnyRecord], family: str, kind: type[Message], change: Callable[..., Message]) -> None:
    """Change each message of the ledger of a family."""
    for at, each in enumerate(records):
        if isinstance(each, Entered) and each.bucket == buckets.LEDGER and f".{family}." in each.key:
            records[at] = replace(each, value=encode(change(decode(each.value, kind))))


async def placed(run: RecordedRun, *names: str) -> None:
    for name in names:
        run.pod(pod(name).requests(cpu=100))
        await run.bench.until_idle()


@pytest.fixture
def run() -> RecordedRun:
    made = RecordedRun()
    made.node("n0", cpu=4000)
    made.node("n1", cpu=4000)
    return made


async def test_two_hundred_decisions_come_out_the_same() -> None:
    run = RecordedRun()
    await Arrivals(run, 1).some(200)
    found = run.audited()
    assert [each for each in found if each.outcome != "same"] == []
    assert sum(len(each.decisions) for each in found) >= 200


async def test_another_node_is_a_difference(run: RecordedRun) -> None:
    await placed(run, "p")
    records = run.recorded()
    rewritten(records, "decision", Decision, lambda each: replace(each, node="n9"))
    (found,) = audited(records)
    assert found.outcome == "different"
    assert found.about == ("default/p: node was 'n9', is 'n0'",)


async def test_a_decision_that_is_not_recorded_is_said(run: RecordedRun) -> None:
    await placed(run, "p")
    records = [each for each in run.recorded() if not (isinstance(each, Entered) and ".decision." in each.key)]
    (found,) = audited(records)
    assert (found.outcome, found.about) == ("not replayable", ("1 of its 1 decisions were not recorded",))


async def test_a_plan_that_says_nothing_cannot_be_made_again(run: RecordedRun) -> None:
    await placed(run, "p")
    records = run.recorded()
    rewritten(records, "plan", Plan, lambda each: replace(each, round=None))
    assert [each.about for each in audited(records)] == [("it does not say what it was made from",)]


async def test_what_a_solver_did_not_read_does_not_count(run: RecordedRun) -> None:
    """A node was larger for a moment; its solver never knew."""
    run.relay.solver_is_deaf = True
    run.node("n0", cpu=900_000)
    run.relay.solver_is_deaf = False
    run.node("other", cpu=100)
    await placed(run, "p")
    run.node("n0", cpu=4000)
    run.relay.end(buckets.STATE)
    await placed(run, "q")
    assert outcomes(run.audited()) == ["same", "same"]


async def test_what_the_recorder_missed_makes_plans_unknown_until_it_has_read_what_came_instead(
    run: RecordedRun,
) -> None:
    run.relay.recorder_is_deaf = True
    run.node("n0", cpu=2000)
    run.relay.recorder_is_deaf = False
    run.node("other", cpu=100)
    await placed(run, "p")
    run.node("n0", cpu=4000)
    run.relay.end(buckets.STATE)
    await placed(run, "q")
    found = run.audited()
    assert [each.about for each in found] == [("values of state were replaced before they were recorded",), ()]
    assert outcomes(found) == ["not replayable", "same"]


async def test_a_later_segment_is_enough(run: RecordedRun) -> None:
    await placed(run, "p", "q")
    run.recorded()
    second = list(run.relay.taking.checkpoint("first", 1.0, STREAMS))
    await placed(run, "r")
    second += run.relay.taking.taken()
    assert outcomes(list(audited(second))) == ["same"]
    assert outcomes(list(audited([*run.records, *second]))) == ["same", "same", "same"]


async def test_records_may_come_in_pieces(run: RecordedRun) -> None:
    await placed(run, "p", "q")
    audit = Audit(lambda plan, stored_s: True)
    assert outcomes([found for each in run.recorded() for found in audit.over([each])]) == ["same", "same"]


async def test_what_came_before_the_recording_is_said(run: RecordedRun) -> None:
    await placed(run, "p")
    late = list(run.relay.taking.checkpoint("late", 1.0, STREAMS))
    late += [each for each in run.recorded() if isinstance(each, Entered) and each.bucket == buckets.LEDGER]
    assert [each.about for each in audited(late)] == [("it was made from values of ledger from before the recording",)]


async def test_another_stream_is_said(run: RecordedRun) -> None:
    await placed(run, "p")
    records = run.recorded()
    records[0] = Began("first", 0.0, dict.fromkeys(STREAMS, "anew"))
    about = "a bucket has begun anew between what it was made from and what was recorded"
    assert [each.about for each in audited(records)] == [(about,)]


async def test_a_gap_in_the_recording_is_no_bridge(run: RecordedRun) -> None:
    """What a plan was made from is not recorded to its end when another run begins."""
    await placed(run, "p")
    key = subjects.pod_key("default", "p")
    records = [each for each in run.recorded() if not (isinstance(each, Entered) and each.key == key)]
    (found,) = audited([*records, *run.relay.taking.checkpoint("second", 9.0, STREAMS)])
    assert found.outcome == "not replayable"
    assert found.about == ("recording ended before all was read that it was made from",)


async def test_a_row_that_is_given_to_another_node_is_followed(run: RecordedRun) -> None:
    await placed(run, "p")
    run.delete(subjects.named_key("node", "n1"))
    run.node("n2", cpu=4000)
    run.node("n3", cpu=4000)
    run.relay.end(buckets.STATE)
    await placed(run, "q", "r", "s")
    assert outcomes(run.audited()) == ["same"] * 4
