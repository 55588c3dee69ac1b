"""Files that are written to and given back, by the same process or by one that follows."""

import errno
import os
import shutil
import sys

import pytest

from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.store import JournalFile


class Node:
    """Two groups of a node, and the journal of its agents."""

    def __init__(self, root) -> None:
        self.root = root / "cgroup"
        self.journal = root / "journal"
        for group in ("a", "b"):
            (self.root / group).mkdir(parents=True)
            (self.root / group / "knob").write_text(f"{group} before\n")

    def process(self, boot: str = "this") -> Executor:
        executor = Executor(DiskTree(self.root), JournalFile(str(self.journal)), boot=boot)
        executor.load()
        assert executor.problem is None
        return executor

    def knob(self, group: str) -> str:
        return (self.root / group / "knob").read_text().strip()


@pytest.fixture
def node(tmp_path) -> Node:
    return Node(tmp_path)


def test_a_process_that_follows_gives_back_what_was_before(node):
    former = node.process()
    former.write("a/knob", "1")
    former.write("a/knob", "2")
    assert node.knob("a") == "2"
    follower = node.process()
    follower.write("a/knob", "3")
    assert follower.undo() == ()
    assert node.knob("a") == "a before"
    (node.root / "a/knob").write_text("by somebody")
    assert node.process().undo() == (), "nothing is left to give back"
    assert node.knob("a") == "by somebody"


def test_what_a_file_had_is_stored_before_it_is_written_to(node, monkeypatch):
    def dies(self, path, text):
        raise SystemExit

    monkeypatch.setattr(Executor, "_put", dies)
    with pytest.raises(SystemExit):
        node.process().write("a/knob", "1")
    monkeypatch.undo()
    (node.root / "a/knob").write_text("1")
    node.process().undo()
    assert node.knob("a") == "a before"


def test_a_group_that_was_made_anew_is_left_alone(node):
    former = node.process()
    former.write("a/knob", "1")
    former.write("b/knob", "1")
    (node.root / "a").rename(node.root / "old")
    (node.root / "a").mkdir()
    (node.root / "a/knob").write_text("new")
    shutil.rmtree(node.root / "b")
    assert node.process().undo() == ()
    assert node.knob("a") == "new"


def test_after_a_boot_nothing_is_given_back(node):
    node.process("former").write("a/knob", "1")
    node.process("this").undo()
    assert node.knob("a") == "1"


def test_what_cannot_be_given_back_is_named_and_tried_again(node, monkeypatch):
    former = node.process()
    former.write("a/knob", "1")
    former.write("b/knob", "1")
    put = Executor._put

    def refuses(self, path, text):
        if path.startswith("a/"):
            raise OSError(errno.EBUSY, "busy")
        put(self, path, text)

    monkeypatch.setattr(Executor, "_put", refuses)
    follower = node.process()
    (problem,) = follower.undo()
    assert (problem.field, problem.message) == ("a/knob", "cannot be given back: EBUSY")
    assert node.knob("b") == "b before"
    monkeypatch.undo()
    assert node.process().undo() == ()
    assert node.knob("a") == "a before"


def test_what_is_refused_in_one_order_is_given_back_in_another(node, monkeypatch):
    """As version 1 refuses a group that would not fit within the one above."""
    former = node.process()
    for group in ("b", "a"):
        former.write(f"{group}/knob", "1")
    put = Executor._put

    def b_before_a(self, path, text):
        if path == "a/knob" and node.knob("b") != "b before":
            raise OSError(errno.EACCES, "outside of the parent")
        put(self, path, text)

    monkeypatch.setattr(Executor, "_put", b_before_a)
    assert node.process().undo() == ()
    assert (node.knob("a"), node.knob("b")) == ("a before", "b before")


def test_of_a_torn_journal_what_can_be_read_counts_and_it_is_kept_aside(node):
    former = node.process()
    former.write("a/knob", "1")
    former.write("b/knob", "1")
    torn = node.journal.read_bytes()[:-30]
    node.journal.write_bytes(torn)
    executor = Executor(DiskTree(node.root), JournalFile(str(node.journal)), boot="this")
    executor.load()
    executor.write("b/knob", "2")
    [problem] = executor.problems()
    assert problem.field == "journal"
    aside = node.journal.with_name("journal.unreadable-1")
    assert aside.read_bytes() == torn
    assert problem.message.endswith(f"; kept as {aside}; 1 of its entries can be read and count")
    assert executor.undo() == ()
    assert (node.knob("a"), node.knob("b")) == ("a before", "1"), "what stood there is what the second process found"
    assert node.process().problems() == (), "the next one has a whole journal"


def test_no_more_than_three_unreadable_journals_are_kept(node):
    for number in range(5):
        node.journal.write_text(f"torn {number}")
        Executor(DiskTree(node.root), JournalFile(str(node.journal)), boot="this").load()
    names = sorted(each.name for each in node.journal.parent.iterdir() if "unreadable" in each.name)
    assert names == ["journal.unreadable-1", "journal.unreadable-2", "journal.unreadable-3"]
    assert (node.journal.parent / names[0]).read_text() == "torn 4"


def test_a_process_that_dies_amid_keeping_aside_loses_nothing(node, monkeypatch):
    node.process().write("a/knob", "1")
    node.journal.write_bytes(node.journal.read_bytes()[:-1])
    monkeypatch.setattr(JournalFile, "save", lambda self, data: sys.exit(1))
    for _ in range(2):
        killed = Executor(DiskTree(node.root), JournalFile(str(node.journal)), boot="this")
        with pytest.raises(SystemExit):
            killed.load()
    monkeypatch.undo()
    last = Executor(DiskTree(node.root), JournalFile(str(node.journal)), boot="this")
    last.load()
    assert last.undo() == ()
    assert node.knob("a") == "a before"
    assert not node.journal.with_name("journal.unreadable-2").exists()


def test_a_journal_that_cannot_be_kept_aside_is_not_overwritten(node, monkeypatch):
    def refused(self):
        raise OSError(errno.EROFS, "read-only")

    node.journal.write_text("torn")
    monkeypatch.setattr(JournalFile, "keep_aside", refused)
    executor = Executor(DiskTree(node.root), JournalFile(str(node.journal)), boot="this")
    executor.load()
    executor.write("a/knob", "1")
    assert node.journal.read_text() == "torn"
    assert [each.field for each in executor.problems()] == ["journal"]
    assert executor.undo() == ()
    assert node.knob("a") == "a before"


def test_a_journal_that_cannot_be_stored_is_named_and_work_goes_on(node):
    executor = Executor(DiskTree(node.root), JournalFile(str(node.root / "absent/journal")), boot="this")
    executor.load()
    executor.write("a/knob", "1")
    assert node.knob("a") == "1"
    assert executor.problem is not None
    assert "ENOENT" in executor.problem.message
    assert executor.undo() == ()
    assert node.knob("a") == "a before"


def test_entries_of_vanished_groups_do_not_pile_up(node, monkeypatch):
    monkeypatch.setattr("berth.node_qos_enforcer.executor.writing.PRUNE_FROM", 10)
    executor = node.process()
    executor._prune_at = 10
    for number in range(50):
        (node.root / f"pod{number}").mkdir()
        (node.root / f"pod{number}/knob").write_text("x")
        executor.write(f"pod{number}/knob", "1")
        shutil.rmtree(node.root / f"pod{number}")
    assert len(executor._journal) <= 20


def test_a_link_on_the_way_is_not_followed(node, tmp_path):
    """Of version 1 the folder of a controller may be one; below it there is none."""
    (node.root / "a/pod").mkdir()
    (node.root / "a/pod/knob").write_text("before")
    (node.root / "link").symlink_to("a")
    process = node.process()
    process.write("link/pod/knob", "1")
    assert (node.root / "a/pod/knob").read_text() == "1\n"
    victim = tmp_path / "elsewhere"
    victim.mkdir()
    (victim / "knob").write_text("theirs")
    shutil.rmtree(node.root / "a/pod")
    (node.root / "a/pod").symlink_to(victim)
    with pytest.raises(OSError, match="Not a directory"):
        process.write("a/pod/knob", "2")
    assert (victim / "knob").read_text() == "theirs"


def test_a_link_is_not_followed(node, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (node.root / "a/knob").unlink()
    os.symlink(victim, node.root / "a/knob")
    with pytest.raises(OSError, match="ymbolic"):
        node.process().write("a/knob", "1")
    assert victim.read_text() == "mine"
