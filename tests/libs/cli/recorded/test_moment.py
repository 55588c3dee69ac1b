"""How things were at a moment of what was recorded: what solvers went by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from berth.cli.recorded.moment import moment_of
from berth.cli.recorded.segments import heads
from berth.contracts.buckets import LEDGER
from berth.contracts.codec import encode
from berth.contracts.ledger import Plan, PlanStatus
from berth.contracts.round import Ground, Round
from berth.recording.frames import MARK, framed
from berth.recording.grounds import KEPT_MAX, Known, named, told
from berth.recording.records import AnyRecord, Began, Entered, Told, Whole

NODES = tuple(f"n{number}" for number in range(20))


def ground(*, renamed: int = 0, **fields: Any) -> Known:
    nodes = (*NODES[: len(NODES) - renamed], *(f"m{number}" for number in range(renamed)))
    return Known(named(Ground(id="", version="1", **fields), nodes), nodes)


def teller(sequence: int, known: Known, before: Known | None = None) -> Entered:
    said = told(known.ground, known.nodes, before)
    plan = Plan(id=f"p{sequence}", status=PlanStatus.COMMITTED, round=Round(ground=said.id, told=said))
    return Entered(LEDGER, sequence, f"e1.plan.p{sequence}", encode(plan), stored_s=float(sequence))


def put(folder: Path, *records: AnyRecord) -> None:
    (folder / "berth-0000000001.rec").write_bytes(MARK + b"".join(framed([Began("a", 1.0, {}), *records])))


def test_a_change_told_later_is_one_of_what_a_plan_told_before(tmp_path: Path) -> None:
    before, after = ground(), ground(renamed=1)
    put(tmp_path, Whole(), teller(2, before))
    found = moment_of(heads(tmp_path), 5.0)
    assert found.ground.ground.id == before.ground.id
    assert found.recalled.take(teller(6, after, before)) == after


def test_plans_of_a_checkpoint_push_out_nothing_that_its_head_tells(tmp_path: Path) -> None:
    newest = ground(turning_over=0.5)
    old = [teller(2 + at, ground(turning_over=at / 1000)) for at in range(KEPT_MAX)]
    put(tmp_path, Told(told(newest.ground, newest.nodes)), *old, Whole())
    found = moment_of(heads(tmp_path), 100.0)
    assert found.ground == newest
    assert found.recalled.grounds.of(newest.ground.id) == newest


def test_a_checkpoint_that_tells_nothing_has_what_its_plans_tell(tmp_path: Path) -> None:
    only = ground()
    put(tmp_path, teller(2, only), Whole())
    assert moment_of(heads(tmp_path), 5.0).ground == only


def test_what_was_told_later_is_not_known(tmp_path: Path) -> None:
    put(tmp_path, Whole(), teller(2, ground()), teller(9, ground(renamed=1)))
    assert moment_of(heads(tmp_path), 5.0).ground == ground()
