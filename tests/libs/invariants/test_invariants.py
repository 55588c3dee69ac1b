"""What every check of a world does: each invariant in the report, bounded evidence, a name for what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.invariants.worlds import check_of, ledger, pod

from berth.contracts import subjects
from berth.invariants import INVARIANTS, World, check
from berth.invariants.report import result_of


def test_an_empty_world_breaks_nothing() -> None:
    report = check(World.of())
    assert report.ok
    assert [result.name for result in report.results] == [each.name for each in INVARIANTS]
    assert len({each.name for each in INVARIANTS}) == len(INVARIANTS)


def test_evidence_is_bounded_and_printed() -> None:
    report = check(World.of(pods=[pod(f"p{i}", "n1", plan="") for i in range(50)]))
    (result,) = report.broken
    assert len(result.evidence) == 21
    assert result.evidence[-1] == "and 30 more"
    lines = report.lines()
    assert any(line.startswith("BROKEN I5") for line in lines)
    assert any(line.startswith("ok     I1:") for line in lines)


def test_what_could_not_be_judged_is_neither_kept_nor_broken() -> None:
    report = check(World.of())
    lines = report.lines()
    assert report.ok
    at = next(index for index, line in enumerate(lines) if line.startswith("-      I1c: "))
    assert lines[at + 1] == "         not judged: no node reports devices in use"


def test_what_is_broken_was_judged() -> None:
    assert result_of("I1c", "", ["twice"], not_judged="nobody looked").not_judged == ""
    assert result_of("I1c", "", [], not_judged="nobody looked").not_judged == "nobody looked"


@pytest.mark.parametrize("bad", [{}, {"metadata": 3}, {"metadata": {"name": "x"}, "spec": {"nodeName": 5}}])
def test_what_cannot_be_read_is_named(bad: dict[str, Any]) -> None:
    assert check_of(pods=[bad]) == ["I0"]


def test_a_broken_ledger_entry_is_named() -> None:
    entries = ledger()
    entries[subjects.decision_key(1, "default", "p")] = (9, b"{")
    assert check_of(ledger=entries) == ["I0"]
