"""The journal of what files had before, as values."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.journal import BYTES_MAX, Journal, Kept, decode, encode, salvage

KEPT = st.builds(Kept, path=st.sampled_from("abcd"), text=st.text(max_size=5), folder=st.integers(0, 3))


def test_the_first_text_of_a_file_counts():
    journal = Journal()
    journal.note(Kept("a", "before", 1))
    journal.note(Kept("a", "ours", 1))
    assert list(journal) == [Kept("a", "before", 1)]


def test_a_file_of_a_folder_that_was_made_anew_is_another_one():
    journal = Journal([Kept("a", "before", 1), Kept("b", "x", 1)])
    journal.note(Kept("a", "new", 2))
    assert list(journal) == [Kept("b", "x", 1), Kept("a", "new", 2)]


def test_the_last_is_given_back_first():
    journal = Journal([Kept("a", "1", 1), Kept("b", "2", 1)])
    assert [each.path for each in journal.undo()] == ["b", "a"]


@given(st.lists(KEPT, max_size=12))
def test_a_stored_journal_comes_back(noted):
    journal = Journal()
    for each in noted:
        journal.note(each)
    read = decode(encode(journal, "boot"), "boot")
    assert not isinstance(read, Problem)
    assert list(read) == list(journal)


def test_after_a_boot_nothing_is_left():
    read = decode(encode(Journal([Kept("a", "1", 1)]), "before"), "after")
    assert not isinstance(read, Problem)
    assert list(read) == []


def test_what_cannot_be_read_is_named():
    whole = encode(Journal([Kept("a", "1", 1)]), "b")
    for data in (b"", whole[:-3], b"[]", b'{"boot":"b","files":[{"path":1}]}', b"x" * (BYTES_MAX + 1), b"\xff"):
        read = decode(data, "b")
        assert isinstance(read, Problem), data[:20]
        assert read.field == "journal"
    later = decode(b'{"boot":"b","files":[],"version":2}', "b")
    assert isinstance(later, Problem)
    assert later.field == "journal.version"


@given(st.lists(KEPT, min_size=1, max_size=6), st.integers(0, 400), st.sampled_from([b"", b"\xff", b'"', b"{", b"}"]))
def test_of_a_damaged_journal_what_lies_before_the_damage_is_read(noted, at, put):
    journal = Journal(noted)
    data = encode(journal, "b")
    at = min(at, len(data) - 1)
    damaged = data[:at] + put + (data[at + 1 :] if put else b"")
    found = list(salvage(damaged, "b"))
    whole = data[:at].decode(errors="replace")
    before = [each for each in journal if msgspec.json.encode(each).decode() in whole]
    assert found[: len(before)] == before
    assert {each.path for each in salvage(data, "b")} == {each.path for each in journal}
    assert list(salvage(damaged, "other")) == []


def test_of_a_later_version_nothing_is_undone():
    later = encode(Journal([Kept("a", "1", 1)]), "b").replace(b'"version":1', b'"version":2')
    assert list(salvage(later, "b")) == []
