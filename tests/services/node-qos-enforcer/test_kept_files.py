"""Files that stay open: they read as the others do, whatever happens to them in between."""

import errno
import os
import resource
import shutil

import pytest

from berth.node_qos_enforcer import kept_files
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.kept_files import FILES_MAX, SWEEP_ROUNDS, KeptFiles, most_files
from berth.node_qos_enforcer.sampler import take_sample


@pytest.fixture
def kept(tmp_path):
    files = KeptFiles(DiskTree(tmp_path))
    yield files
    files.close()
    assert len(files) == 0


def test_what_is_written_meanwhile_is_read(kept, tmp_path):
    (tmp_path / "a").write_text("1\n")
    assert kept.read("a") == "1\n"
    (tmp_path / "a").write_text("234\n")
    assert kept.read("a") == "234\n"
    assert len(kept) == 1


def test_what_is_not_there_is_nothing_special(kept, tmp_path):
    assert kept.read("no/a") is None
    assert len(kept) == 0
    (tmp_path / "no").mkdir()
    with pytest.raises(Unreadable):
        kept.read("no")


def test_another_group_of_the_name_is_read_anew(kept, tmp_path):
    for incarnation, text in ((1, "1"), (2, "2")):
        (tmp_path / "g").mkdir()
        (tmp_path / "g/a").write_text(text)
        assert kept.read("g/a", incarnation) == text
        shutil.rmtree(tmp_path / "g")
    assert kept.read("g/a", 3) is None
    assert len(kept) == 0


def test_a_descriptor_of_a_group_that_is_gone_is_opened_anew(kept, tmp_path, monkeypatch):
    (tmp_path / "a").write_text("1")
    kept.read("a")
    read, old = os.pread, kept._open["a"].descriptor

    def gone(descriptor, *rest):
        if descriptor == old:
            raise OSError(errno.ENODEV, "no such device")
        return read(descriptor, *rest)

    os.dup(old)  # so that the new one has another number
    monkeypatch.setattr(kept_files.os, "pread", gone)
    monkeypatch.setattr(kept_files.os, "close", lambda descriptor: None)
    assert kept.read("a") == "1"
    assert kept._open["a"].descriptor != old


def test_a_long_file_is_read_whole(kept, tmp_path):
    (tmp_path / "a").write_text("x" * 40_000)
    assert len(kept.read("a")) == len(kept.read("a")) == 40_000


def test_they_are_bounded_and_those_that_nobody_reads_are_closed(tmp_path):
    kept = KeptFiles(DiskTree(tmp_path), most=2)
    for name in "abc":
        (tmp_path / name).write_text(name)
        assert kept.read(name) == name
    assert len(kept) == 2
    for _ in range(2 * SWEEP_ROUNDS):
        kept.read("a")
        kept.end_round()
    assert len(kept) == 1
    assert kept.read("c") == "c"
    kept.close()


@pytest.mark.parametrize(
    ("soft", "hard", "most", "raised"),
    [(1_024, 4_096, 3_584, 4_096), (1_024, 1 << 20, FILES_MAX, 8_704), (256, 256, 0, 256), (-1, -1, FILES_MAX, None)],
)
def test_as_many_as_the_process_may_have(monkeypatch, soft, hard, most, raised):
    limits = []
    monkeypatch.setattr(kept_files.resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(kept_files.resource, "setrlimit", lambda _, both: limits.append(both))
    assert most_files() == most
    if raised is not None:
        assert limits == [(raised, hard)]
    assert resource.RLIM_INFINITY == -1


def test_a_look_is_the_same_with_files_that_stay_open(fake_machine):
    fake_machine.kubelet()
    kept = KeptFiles(fake_machine.trees.cgroup)

    def look(**how):
        return take_sample(fake_machine.trees, monotonic=lambda: 1.0, **how)

    for used in (1, 2, 3):
        path = fake_machine.pod("a", "Burstable", cpu_ns=used * 1_000_000, memory=used)
        assert look(kept=kept) == look()
        if used == 2:
            where = {"v2": "", "v1": "cpuacct/", "hybrid": "cpuacct/"}[fake_machine.mode]
            folder = fake_machine.root / "sys/fs/cgroup" / f"{where}{path}"
            folder.rename(folder.with_name("aside"))
    assert look(with_pressure=False).pressure == {}
    kept.close()
