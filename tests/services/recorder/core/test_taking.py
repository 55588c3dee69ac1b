"""What is taken down, and what a checkpoint holds."""

from __future__ import annotations

from typing import Any

from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.ledger import Plan, PlanStatus
from berth.contracts.round import Ground, Round
from berth.recorder.core.taking import MARKERS_KEPT_S, Taking
from berth.recording.grounds import KEPT_MAX, Known, named, told
from berth.recording.records import AnyRecord, Began, Ended, Entered, Missed, Told, Whole

STATE, LEDGER = buckets.STATE, buckets.LEDGER


def put(taking: Taking, bucket: str, sequence: int, key: str = "k", value: bytes = b"v", **fields: Any) -> None:
    gap = fields.pop("gap", False)
    taking.apply(Entered(bucket, sequence, key, value, **{"stored_s": float(sequence), **fields}), gap=gap)


def begun() -> Taking:
    taking = Taking([STATE, LEDGER])
    put(taking, STATE, 5, gap=True)
    for name in (STATE, LEDGER):
        taking.end(name)
    return taking


def checkpoint(taking: Taking) -> list[AnyRecord]:
    return list(taking.checkpoint("run", 1.0, {STATE: "made"}))


def test_nothing_is_taken_down_before_all_was_read() -> None:
    taking = Taking([STATE, LEDGER])
    put(taking, STATE, 1)
    assert (taking.is_whole, taking.unread, taking.taken()) == (False, [STATE, LEDGER], [])


def test_a_checkpoint_has_the_newest_of_each_key_and_the_rest_follows() -> None:
    taking = begun()
    put(taking, STATE, 6, "other")
    put(taking, STATE, 7, value=b"new")
    kept = [Entered(STATE, 6, "other", b"v", False, 6.0), Entered(STATE, 7, "k", b"new", False, 7.0)]
    assert checkpoint(taking) == [Began("run", 1.0, {STATE: "made"}), *kept, Whole()]
    put(taking, STATE, 8, deleted=True)
    assert taking.taken() == [Entered(STATE, 8, "k", b"v", True, 8.0)]
    assert taking.taken() == []


def test_what_comes_while_a_checkpoint_is_written_is_no_part_of_it() -> None:
    taking = begun()
    records = taking.checkpoint("run", 1.0, {})
    next(records)
    put(taking, STATE, 6, "late")
    assert [each.key for each in records if isinstance(each, Entered)] == ["k"]
    assert [each.key for each in taking.taken() if isinstance(each, Entered)] == ["late"]


def test_what_was_replaced_before_it_was_read_is_noted_until_the_end() -> None:
    taking = begun()
    checkpoint(taking)
    put(taking, STATE, 9, gap=True)
    assert Missed(STATE, 6, 8) in checkpoint(taking)
    taking.end(STATE)
    taking.end(STATE)
    noted = [each for each in taking.taken() if not isinstance(each, Entered)]
    assert noted == [Missed(STATE, 6, 8), Ended(STATE, 9)]
    assert not any(isinstance(each, Missed) for each in checkpoint(taking))


def test_a_bucket_that_begins_anew_ends_it() -> None:
    taking = begun()
    checkpoint(taking)
    put(taking, STATE, 6)
    taking.reset(STATE)
    assert (taking.on, taking.is_whole, taking.taken(), taking.keys) == (False, False, [], 0)


def test_deletions_are_forgotten_when_the_server_has_forgotten_them() -> None:
    taking = begun()
    put(taking, STATE, 6, "gone", deleted=True)
    assert [each.key for each in checkpoint(taking) if isinstance(each, Entered)] == ["k", "gone"]
    put(taking, STATE, 7, stored_s=7.0 + MARKERS_KEPT_S)
    assert [each.key for each in checkpoint(taking) if isinstance(each, Entered)] == ["k"]


def test_grounds_that_plans_told_are_told_again_in_full() -> None:
    taking = begun()
    nodes = [f"n{number}" for number in range(20)]
    ground = named(Ground(id="", version="1"), nodes)
    plans = [Round(ground=ground.id, told=told(ground, nodes)), Round(ground="x", told=Ground(id="x"))]
    for sequence, said in enumerate(plans, 1):
        plan = Plan(id=f"p{sequence}", status=PlanStatus.COMMITTED, round=said)
        put(taking, LEDGER, sequence, f"e1.plan.p{sequence}", encode(plan))
    put(taking, LEDGER, 3, "e1.plan.bad", b"{")
    assert [each for each in checkpoint(taking) if isinstance(each, Told)] == [Told(told(ground, nodes))]
    assert taking.refused == 2


def teller(sequence: int, said: Ground, stored_s: float | None = None) -> Entered:
    """A plan's entry that tells a ground."""
    plan = Plan(id=f"p{sequence}", status=PlanStatus.COMMITTED, round=Round(ground=said.id, told=said))
    at_s = float(sequence) if stored_s is None else stored_s
    return Entered(LEDGER, sequence, f"e1.plan.p{sequence}", encode(plan), stored_s=at_s)


def ground_of(size: int, **fields: Any) -> tuple[Ground, list[str]]:
    nodes = [f"n{number}" for number in range(size)]
    return named(Ground(id="", version="1", **fields), nodes), nodes


def grounds_in(records: list[AnyRecord]) -> list[str]:
    return [each.ground.id for each in records if isinstance(each, Told)]


def test_grounds_of_an_earlier_segment_are_told_again() -> None:
    one, nodes = ground_of(20)
    other, _ = ground_of(20, turning_over=0.5)
    newer, more = ground_of(21)
    before = begun()
    before.apply(teller(1, told(one, nodes)), gap=False)
    segment = checkpoint(before)
    segment += [Entered(LEDGER, 2, "e1.plan.bad", b"{"), teller(3, told(other, nodes, Known(one, tuple(nodes))))]
    taking = Taking([STATE, LEDGER])
    for record in segment:
        taking.recall(record)
    # Both plans that told them have gone; what came while nobody recorded is told as changes.
    taking.apply(teller(9, told(newer, more, Known(other, tuple(nodes)))), gap=True)
    assert grounds_in(checkpoint(taking)) == [one.id, other.id, newer.id]
    assert taking.refused == 0


def test_a_checkpoint_without_grounds_has_those_of_its_plans() -> None:
    one, nodes = ground_of(20)
    taking = Taking([STATE, LEDGER])
    segment: list[AnyRecord] = [Began("run", 1.0, {}), teller(1, told(one, nodes)), Whole()]
    for record in segment:
        taking.recall(record)
    assert grounds_in(checkpoint(taking)) == [one.id]


def test_old_grounds_of_plans_in_a_checkpoint_do_not_push_out_those_of_its_head() -> None:
    old = [ground_of(3, turning_over=number / 100) for number in range(1, KEPT_MAX + 1)]
    newest, nodes = ground_of(20)
    last, more = ground_of(21)
    before = begun()
    for sequence, (each, names) in enumerate(old, 1):
        before.apply(teller(sequence, told(each, names)), gap=False)
    gone = teller(100, told(newest, nodes))
    before.apply(gone, gap=False)
    before.apply(Entered(LEDGER, 101, gone.key, b"", deleted=True, stored_s=101.0), gap=False)
    segment = checkpoint(before)
    segment.append(teller(102, told(last, more, Known(newest, tuple(nodes)))))
    taking = Taking([STATE, LEDGER])
    for record in segment:
        taking.recall(record)
    assert grounds_in(checkpoint(taking))[-2:] == [newest.id, last.id]


def test_what_the_bucket_still_has_of_old_grounds_does_not_push_out_newer_ones() -> None:
    old = [ground_of(3, turning_over=number / 100) for number in range(1, KEPT_MAX + 1)]
    newest, nodes = ground_of(20)
    taking = Taking([STATE, LEDGER])
    taking.recall(Told(told(newest, nodes)))
    taking.recall(Entered(LEDGER, 100, "e1.plan.p100", b"", deleted=True, stored_s=100.0))
    for sequence, (each, names) in enumerate(old, 1):
        taking.apply(teller(sequence, told(each, names)), gap=False)
    assert grounds_in(checkpoint(taking)) == [newest.id]


def test_a_bucket_that_began_anew_is_looked_at() -> None:
    one, nodes = ground_of(20)
    taking = Taking([STATE, LEDGER])
    taking.recall(Entered(LEDGER, 100, "e1.plan.p100", b"{", stored_s=100.0))
    taking.apply(teller(1, told(one, nodes), stored_s=101.0), gap=False)
    assert grounds_in(checkpoint(taking)) == [one.id]
