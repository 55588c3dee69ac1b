"""Writing to the best-effort group: in every layout, with what stands in the way, and never anywhere else."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from berth.node_qos_enforcer.cgroups import Controller
from berth.node_qos_enforcer.control import CPUS, Control
from berth.node_qos_enforcer.core.cgroup_files import Bandwidth
from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.plan import ALL, Held, Plan, release
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.files import DiskTree

EVERY = frozenset(range(8))


def tree_of(machine) -> DiskTree:
    return DiskTree(machine.root / "sys/fs/cgroup")


def group_file(machine, controller: str, group: str, file: str) -> Path:
    """Where a file is in the machine's layout."""
    where = "" if machine.mode == "v2" else controller
    return machine.root / "sys/fs/cgroup" / where / group / file


def everything(machine) -> dict[str, str]:
    root = machine.root / "sys/fs/cgroup"
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def busy(fake_machine):
    """A node with a pod of each class; the best-effort one has a container."""
    fake_machine.kubelet()
    for qos in ("Guaranteed", "Burstable"):
        fake_machine.pod("p", qos, cpu_ns=0, memory=0)
    pod = fake_machine.pod("be", "BestEffort", cpu_ns=0, memory=0)
    fake_machine.group(f"{pod}/c1", cpu_ns=0, memory=0)
    return fake_machine


def quota(machine) -> str:
    group = qos_dir(machine.driver, "BestEffort")
    return group_file(machine, "cpu", group, "cpu.max" if machine.mode == "v2" else "cpu.cfs_quota_us").read_text()


def test_a_quota_is_written_at_the_top_and_let_go(busy):
    control = Control(Executor(tree_of(busy)))
    before = everything(busy)
    assert control.apply(Plan(quota_us=150_000), control.held()) == ()
    assert quota(busy) == ("150000 100000\n" if busy.mode == "v2" else "150000\n")
    changed = {path for path, text in everything(busy).items() if before[path] != text}
    assert len(changed) == 1
    assert control.held().quota_us == 150_000
    assert control.apply(release(control.held()), control.held()) == ()
    assert everything(busy) == before


def test_a_quota_is_scaled_to_the_groups_period(busy):
    group = qos_dir(busy.driver, "BestEffort")
    if busy.mode == "v2":
        group_file(busy, "cpu", group, "cpu.max").write_text("max 20000\n")
    else:
        group_file(busy, "cpu", group, "cpu.cfs_period_us").write_text("20000\n")
    control = Control(Executor(tree_of(busy)))
    control.apply(Plan(quota_us=150_000), control.held())
    assert quota(busy).split()[0] == "30000"
    assert control.held().quota_us == 150_000
    control.apply(Plan(quota_us=2_000), control.held())
    assert quota(busy).split()[0] == "1000", "the kernel takes no less"


def test_cpus_are_written_and_let_go(busy):
    tree = tree_of(busy)
    held = Held(None, EVERY, EVERY)
    assert Control(Executor(tree)).apply(Plan(cpus=frozenset({0, 1, 4})), held) == ()
    written = {path: text for path, text in everything(busy).items() if path.endswith(CPUS) and text == "0-1,4\n"}
    best_effort = qos_dir(busy.driver, "BestEffort")
    assert all(f"{best_effort}/" in path for path in written)
    # Version 2: groups below see what the top leaves them. Version 1: each has a list of its own.
    assert len(written) == (1 if busy.mode == "v2" else 3)
    assert Control(Executor(tree)).apply(Plan(cpus=ALL), held) == ()
    left = {path: text for path, text in everything(busy).items() if path.endswith(CPUS) and best_effort in path}
    assert set(left.values()) == ({"\n"} if busy.mode == "v2" else {"0-7\n"})


@pytest.fixture
def old_machine(tmp_path, modern_machine):
    """Version 1, with three levels of best-effort groups."""
    machine = replace(modern_machine, root=tmp_path / "v1", mode="v1")
    machine.kubelet()
    pod = machine.pod("be", "BestEffort", cpu_ns=0, memory=0)
    machine.group(f"{pod}/c1", cpu_ns=0, memory=0)
    return machine


class Kernel(Control):
    """Refuses what the kernel refuses in version 1: a group outside of its parent, or one with a child outside."""

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        self.order: list[tuple[str, str]] = []

    def _write(self, where, group, file, text):
        if file == CPUS:
            root = self._tree.root / where.root
            cpus = self.cpus_of(text)
            above = self.cpus_of((root / group).parent.joinpath(CPUS).read_text())
            below = [self.cpus_of(path.read_text()) for path in (root / group).glob(f"*/{CPUS}")]
            if not cpus <= above:
                raise OSError(errno.EACCES, "outside of the parent")
            if any(not child <= cpus for child in below):
                raise OSError(errno.EBUSY, "a child is outside")
            self.order.append((group, text))
        super()._write(where, group, file, text)

    @staticmethod
    def cpus_of(text):
        return parse_cpuset(text)


def test_version_1_grows_from_the_top_and_shrinks_from_the_bottom(old_machine):
    control = Kernel(Executor(tree_of(old_machine)))
    held = Held(None, EVERY, EVERY)
    for cpus in ({0, 1}, {2, 3, 4}, {4}, set(EVERY)):
        assert control.apply(Plan(cpus=frozenset(cpus)), held) == ()
        texts = {path.read_text() for path in (old_machine.root / "sys/fs/cgroup/cpuset").rglob(CPUS)}
        assert len(texts) == (1 if cpus == EVERY else 2)


def test_a_container_that_starts_in_between_is_taken_along(old_machine):
    class Racing(Kernel):
        started = False

        def _write(self, where, group, file, text):
            if not self.started and group.count("/") == 2:
                self.started = True
                late = self._tree.root / where.root / group / "late"
                late.mkdir()
                (late / CPUS).write_text("0-7\n")
            super()._write(where, group, file, text)

    control = Racing(Executor(tree_of(old_machine)))
    assert control.apply(Plan(cpus=frozenset({0, 1})), Held(None, EVERY, EVERY)) == ()
    late = next((old_machine.root / "sys/fs/cgroup/cpuset").rglob("late"))
    assert (late / CPUS).read_text() == "0-1\n"


def test_a_refused_write_is_named_and_the_other_knob_is_written(busy):
    class Refusing(Control):
        def _write(self, where, group, file, text):
            if file != CPUS:
                raise OSError(errno.EROFS, "read-only")
            super()._write(where, group, file, text)

    control = Refusing(Executor(tree_of(busy)))
    (problem,) = control.apply(Plan(quota_us=5_000, cpus=frozenset({1})), Held(Bandwidth(-1, 100_000), EVERY, EVERY))
    assert problem.field == "best_effort.quota"
    assert "EROFS; writing needs root" in problem.message
    if busy.mode != "v2":
        assert control.held().cpus == {1}


def test_a_machine_without_kubelet_is_named(fake_machine):
    (problem,) = Control(Executor(tree_of(fake_machine))).apply(Plan(quota_us=5_000), Held(Bandwidth(-1, 100_000)))
    assert "kubelet" in problem.message


@pytest.mark.parametrize(
    ("group", "file"),
    [
        ("kubepods.slice", "cpu.max"),
        ("kubepods.slice/kubepods-burstable.slice", "cpu.max"),
        ("kubepods.slice/kubepods-besteffort.slicex", "cpu.max"),
        ("kubepods.slice/kubepods-besteffort.slice/../x", "cpu.max"),
        ("kubepods.slice/kubepods-besteffort.slice", "cgroup.procs"),
        ("", "cpu.max"),
    ],
)
def test_nothing_else_is_ever_written(modern_machine, group, file):
    modern_machine.kubelet()
    before = everything(modern_machine)
    with pytest.raises(AssertionError, match="not ours to write"):
        Control(Executor(tree_of(modern_machine)))._write(Controller("", 2), group, file, "1")
    assert everything(modern_machine) == before


def test_a_link_is_not_followed(modern_machine, tmp_path):
    modern_machine.kubelet()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    knob = group_file(modern_machine, "cpu", qos_dir("systemd", "BestEffort"), "cpu.max")
    control = Control(Executor(tree_of(modern_machine)))
    held = control.held()
    knob.unlink()
    os.symlink(victim, knob)
    (problem,) = control.apply(Plan(quota_us=5_000), held)
    assert "ELOOP" in problem.message
    assert victim.read_text() == "mine"
