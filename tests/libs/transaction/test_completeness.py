"""The version through which a view is complete: it moves only while nothing can be missing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.transaction.completeness import Completeness


def read(*, through: int = 10) -> Completeness:
    tracker = Completeness()
    tracker.seen(through - 1)
    tracker.marked(through, True)
    tracker.end()
    return tracker


def test_nothing_is_complete_before_the_end_is_reached() -> None:
    tracker = Completeness()
    tracker.seen(5)
    tracker.marked(9, True)
    assert (tracker.version, tracker.is_known) == (0, False)
    tracker.end()
    assert (tracker.version, tracker.is_known) == (9, True)


def test_an_end_without_a_marker_says_nothing() -> None:
    tracker = Completeness()
    tracker.seen(5)
    tracker.end()
    assert (tracker.version, tracker.is_known) == (0, False)


def test_read_in_order_it_moves_with_every_message_and_marker() -> None:
    tracker = read(through=10)
    tracker.seen(11)
    assert tracker.version == 11
    tracker.marked(14, True)
    assert tracker.version == 14
    tracker.seen(12)  # an older object written late
    assert tracker.version == 14


def test_a_gap_stops_it_until_the_end() -> None:
    tracker = read(through=10)
    tracker.gap()
    tracker.seen(12)
    tracker.marked(13, True)
    assert tracker.version == 10
    tracker.end()
    assert tracker.version == 13


def test_a_relist_stops_it_until_the_end_behind_its_last_marker() -> None:
    tracker = read(through=10)
    tracker.marked(10, False)
    tracker.seen(20)
    tracker.end()  # the bucket's end, in the middle of the relist
    assert tracker.version == 10
    tracker.marked(21, True)
    assert tracker.version == 10
    tracker.end()
    assert tracker.version == 21


def test_a_reset_forgets_what_the_view_held() -> None:
    tracker = read(through=10)
    tracker.reset()
    assert (tracker.version, tracker.is_known) == (0, False)
    tracker.end()
    assert tracker.version == 0


def test_an_empty_cluster_is_known_at_version_zero() -> None:
    tracker = Completeness()
    tracker.marked(0, True)
    tracker.end()
    assert (tracker.version, tracker.is_known) == (0, True)


STEPS = st.lists(
    st.one_of(
        st.just("gap"),
        st.just("end"),
        st.just("relist"),
        st.just("reset"),
        st.tuples(st.sampled_from(["seen", "marked"]), st.integers(1, 30)),
    ),
    max_size=40,
)


@settings(max_examples=100)
@given(STEPS)
def test_it_never_moves_between_a_gap_and_the_end_and_never_falls_without_a_reset(steps: list[object]) -> None:
    tracker = Completeness()
    broken, marked = True, False
    for step in steps:
        before = tracker.version
        if step == "gap":
            tracker.gap()
            broken = True
        elif step == "end":
            tracker.end()
            broken = broken and not marked
        elif step == "relist":
            tracker.marked(1, False)
            broken, marked = True, False
        elif step == "reset":
            tracker.reset()
            broken, marked, before = True, False, 0
        else:
            assert isinstance(step, tuple)
            if step[0] == "seen":
                tracker.seen(step[1])
            else:
                tracker.marked(step[1], True)
                marked = True
        assert tracker.version >= before
        if broken:
            assert tracker.version == before
