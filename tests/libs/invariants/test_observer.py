"""An observer that sees every event: silent on good histories; what it says at the end, and how much of it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.libs.invariants.stage import stage
from tests.libs.invariants.story import Good

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Epoch
from berth.invariants import PROMISES, NodeHold
from berth.invariants.log import LogEntry, compacted, fold, folded_otherwise, state_hash


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1 << 30))
def test_a_good_history_breaks_nothing(seed: int) -> None:
    story = Good(seed).run(150)
    assert [str(each) for each in story.observer.violations] == []
    assert story.finish() == []


def test_the_report_names_every_promise() -> None:
    report = Good(1).run(50).observer.finish(quiet=False)
    assert [result.name for result in report.results] == list(PROMISES)
    assert len({promise.title for promise in PROMISES.values()}) == len(PROMISES)


def test_what_nodes_report_is_compared_at_the_end() -> None:
    story = stage()
    story.place("a", minors={0: 100})
    story.bind("a")
    unseen = story.observer.finish(quiet=False).results
    assert [each.name for each in unseen if each.not_judged] == ["I1c", "I1d"]
    as_given = [NodeHold("n1", "gpu", "0", "uid-a")]
    assert not any(each.not_judged for each in story.observer.finish(quiet=False, holds=as_given).results)
    assert [each.name for each in story.observer.finish(quiet=False, holds=as_given).broken] == []
    twice = [*as_given, NodeHold("n1", "gpu", "0", "uid-other", 1)]
    assert [each.name for each in story.observer.finish(quiet=False, holds=twice).broken] == ["I1c"]
    other = [NodeHold("n1", "gpu", "1", "uid-a")]
    assert [each.name for each in story.observer.finish(quiet=False, holds=other).broken] == ["I1d"]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1 << 30))
def test_a_log_folds_to_one_state(seed: int) -> None:
    observer = Good(seed).run(80).observer
    assert observer.log is not None
    assert list(folded_otherwise(observer.log, observer.view)) == []
    assert state_hash(fold(compacted(observer.log))) == observer.hash()


def test_a_log_that_was_followed_otherwise_is_named() -> None:
    story = Good(3).run(80)
    observer = story.observer
    assert observer.log is not None
    observer.log.append(LogEntry(10_000, subjects.EPOCH_KEY, encode(Epoch(epoch=99))))
    assert "I7" in story.finish()


def test_violations_are_told_once_and_are_bounded() -> None:
    story = stage()
    for _ in range(3):
        story.place("a", minors={0: 60})
        story.place("b", minors={0: 60})
    assert [each.promise for each in story.observer.violations].count("I1") == 2  # two resources of one minor
    for number in range(1200):
        story.observer.verdicts.add("I5", f"subject {number}", "x")
    assert len(story.observer.violations) == 1000
    assert story.observer.verdicts.count > 1000


def test_a_nomination_takes_nothing_and_may_become_a_decision() -> None:
    """Its victims are still there; what it becomes is judged like any decision."""
    story = stage()
    story.place("a", minors={0: 100})
    story.bind("a")
    story.place("b", minors={0: 100}, nominates=True)
    assert story.observer.violations == []
    story.delete("pods", "a")
    story.place("b", minors={0: 100})
    story.bind("b")
    assert story.observer.violations == []
