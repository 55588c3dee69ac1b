"""The fence: a key's version never goes down, across deletions too."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.cluster_watcher.core.published_view import FORGET_S, PublishedView, Verdict, deletion_version
from berth.contracts.codec import encode
from berth.contracts.state import Namespace, Synced

KEY = "namespace.a"


def message(version: int, **labels: str) -> bytes:
    return encode(Namespace(name="a", version=version, labels=labels))


def test_what_the_bucket_shows() -> None:
    published = PublishedView()
    assert published.see(KEY, message(5), deleted=False, now=0)
    assert published.version(KEY) == 5
    assert published.judge_put(KEY, 5, hash(message(5))) is Verdict.UNCHANGED
    assert published.judge_put(KEY, 5, hash(message(5, other="bytes"))) is Verdict.WRITE
    assert published.judge_put(KEY, 6, hash(message(6))) is Verdict.WRITE
    assert published.judge_put(KEY, 4, hash(message(4))) is Verdict.STALE
    assert published.judge_deletion(KEY, 4) is Verdict.STALE
    assert published.judge_deletion(KEY, 6) is Verdict.WRITE
    assert published.judge_deletion("namespace.b", 6) is Verdict.UNCHANGED


def test_nothing_comes_back_from_before_its_deletion() -> None:
    published = PublishedView()
    published.put(KEY, 5, 1)
    assert published.see(KEY, b"9", deleted=True, now=0)
    assert dict(published.keys("namespace")) == {}
    assert published.judge_put(KEY, 9, 1) is Verdict.STALE
    assert published.judge_put(KEY, 10, 1) is Verdict.WRITE
    published.see(KEY, message(5), deleted=False, now=0)  # our own past, shown late
    assert published.judge_put(KEY, 9, 1) is Verdict.STALE


def test_deletions_are_forgotten_after_their_markers() -> None:
    published = PublishedView()
    published.delete(KEY, 9, 0)
    published.delete("namespace.b", 9, FORGET_S + 1)
    assert published.version(KEY) == 0
    assert published.version("namespace.b") == 9


def test_unreadable_messages_are_replaced() -> None:
    published = PublishedView()
    for value in (b"\xff", b"[]", b'{"version": "x"}'):
        assert not published.see(KEY, value, deleted=False, now=0)
        assert published.judge_put(KEY, 1, hash(message(1))) is Verdict.WRITE
    assert not published.see("synced.pods", b"{}", deleted=False, now=0)


def test_markers_are_adopted_when_asked() -> None:
    published = PublishedView()
    marker = Synced(kind="pods", version=3, complete=True)
    published.see("synced.pods", encode(marker), deleted=False, now=0)
    assert published.markers == {}
    published.adopt_markers()
    assert published.markers == {"pods": marker}
    published.see("synced.pods", b"", deleted=True, now=0)
    published.adopt_markers()
    assert published.markers == {}


def test_a_marker_that_cannot_be_read_is_none() -> None:
    published = PublishedView()
    published.see("synced.pods", encode(Synced(kind="pods", version=3, complete=True)), deleted=False, now=0)
    assert not published.see("synced.pods", b"garbage", deleted=False, now=0)
    published.adopt_markers()
    assert published.markers == {}


def test_a_deletion_by_somebody_is_undone_by_what_the_server_shows() -> None:
    published = PublishedView()
    published.put(KEY, 9, 1)
    published.see(KEY, b"", deleted=True, now=0)
    assert dict(published.keys("namespace")) == {}
    assert published.judge_put(KEY, 9, 1) is Verdict.WRITE
    assert published.judge_put(KEY, 8, 1) is Verdict.STALE


def test_a_doubtful_key_is_written_or_deleted_by_a_list_that_is_not_older() -> None:
    published = PublishedView()
    published.put(KEY, 9, 1)
    published.doubt(KEY)
    assert published.judge_put(KEY, 9, 1) is Verdict.WRITE
    assert published.judge_deletion(KEY, 9) is Verdict.WRITE
    assert published.judge_put(KEY, 8, 2) is Verdict.STALE
    assert published.judge_deletion(KEY, 8) is Verdict.STALE


def test_a_deletion_in_doubt_is_undone_by_a_list_that_shows_the_object() -> None:
    published = PublishedView()
    published.put(KEY, 9, 1)
    published.delete(KEY, 9, 0.0)
    published.doubt(KEY)
    assert published.judge_put(KEY, 9, 1) is Verdict.WRITE
    assert published.judge_put(KEY, 8, 1) is Verdict.STALE


def test_payloads_of_deletions() -> None:
    assert [deletion_version(each) for each in (b"12", b"", b"x", b"-1", b"1" * 30)] == [12, 0, 0, 0, 0]


CHANGE = st.tuples(st.booleans(), st.integers(1, 20))


@given(st.lists(CHANGE), st.lists(CHANGE))
def test_versions_never_go_down(first: list[tuple[bool, int]], second: list[tuple[bool, int]]) -> None:
    """Two writers whose changes come in any order; each obeys the verdicts."""
    published = PublishedView()
    highest = 0
    for is_deletion, version in first + second:
        if is_deletion:
            if published.judge_deletion(KEY, version) is not Verdict.WRITE:
                continue
            published.delete(KEY, version, 0.0)
        else:
            if published.judge_put(KEY, version, 0) is not Verdict.WRITE:
                continue
            published.put(KEY, version, 0)
        assert version >= highest
        highest = version
        assert published.version(KEY) == highest
