"""What strategies want, brought to files: in every layout, in levels, undone, and never where it is not wanted."""

import errno
import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.core.compose import Composed
from berth.node_qos_enforcer.core.contests import LEFT_S
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.strategies.knobs import (
    CPU_BURST,
    CPU_IDLE,
    CPU_QUOTA,
    CPU_SHARES,
    CPUSET,
    MEMORY_MIN,
    Knob,
    by_name,
)
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applier
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.store import JournalFile

NOTHING = Composed({})


def root_of(machine) -> Path:
    return machine.root / "sys/fs/cgroup"


def texts(machine) -> dict[str, bytes]:
    root = root_of(machine)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


class Node:
    """A machine and the processes of its agents, which share a journal."""

    def __init__(self, machine, journal: Path, *, executor=Executor, knobs=None) -> None:
        self.machine = machine
        self.tree = DiskTree(root_of(machine))
        self.layout = cgroups.detect_layout(self.tree)
        self.executor = executor(self.tree, JournalFile(str(journal)), boot="this")
        self.executor.load()
        self.applier = Applier(self.executor) if knobs is None else Applier(self.executor, knobs)
        self.now_s = 0.0

    def apply(self, values, *, kept=(), asked=lambda _: None, undecided=frozenset(), touched=None):
        self.now_s += 1.0
        wanted = Composed(values, frozenset(kept))
        return self.applier.apply(
            self.layout, wanted, asked=asked, undecided=undecided, now_s=self.now_s, touched=touched
        )


@pytest.fixture
def busy(fake_machine):
    """A node with a pod of each class; the best-effort one has a container."""
    fake_machine.kubelet()
    for qos in ("Guaranteed", "Burstable"):
        fake_machine.pod("p", qos, cpu_ns=0, memory=0)
    pod = fake_machine.pod("be", "BestEffort", cpu_ns=0, memory=0)
    fake_machine.group(f"{pod}/c1", cpu_ns=0, memory=0)
    return fake_machine


@pytest.fixture
def node(busy, tmp_path):
    return Node(busy, tmp_path / "journal")


def best_effort(node) -> tuple[str, ...]:
    top = qos_dir(node.machine.driver, "BestEffort")
    pod = f"{top}/{next(name for name in node.tree.directories(node.layout.cpu.path(top)))}"
    return top, pod, f"{pod}/c1"


def changed(before, after) -> dict[str, str]:
    return {path: text.decode().strip() for path, text in after.items() if before[path] != text}


def test_a_quota_is_written_for_the_groups_period_and_given_back(node):
    before = texts(node.machine)
    top, *_ = best_effort(node)
    assert node.apply({Ref(top, CPU_QUOTA): "150000"}).written == 1
    ((path, text),) = changed(before, texts(node.machine)).items()
    assert (path.rpartition("/")[2], text) == (
        ("cpu.max", "150000 100000") if node.layout.cpu.version == 2 else ("cpu.cfs_quota_us", "150000")
    )
    assert node.apply({Ref(top, CPU_QUOTA): "150000"}).written == 0
    node.apply(NOTHING.values)
    assert texts(node.machine) == before
    assert node.executor.kept == ()


def test_a_quota_is_scaled_to_the_groups_period(node):
    top, *_ = best_effort(node)
    file = "cpu.max" if node.layout.cpu.version == 2 else "cpu.cfs_period_us"
    path = root_of(node.machine) / node.layout.cpu.path(top, file)
    path.write_text("max 20000\n" if node.layout.cpu.version == 2 else "20000\n")
    node.apply({Ref(top, CPU_QUOTA): "150000"})
    assert cgroups.read_bandwidth(node.tree, node.layout, top).quota_us == 30_000
    node.apply({Ref(top, CPU_QUOTA): "2000"})
    assert cgroups.read_bandwidth(node.tree, node.layout, top).quota_us == 1_000, "the kernel takes no less"


def test_what_nobody_wants_goes_to_what_is_asked_for_now(node):
    _, _, container = best_effort(node)
    node.apply({Ref(container, CPU_QUOTA): "400000"})
    node.apply({}, asked=lambda ref: "300000" if ref == Ref(container, CPU_QUOTA) else None)
    assert cgroups.read_bandwidth(node.tree, node.layout, container).quota_us == 300_000, "it was resized meanwhile"
    assert node.executor.kept == ()


def test_what_is_kept_or_undecided_stays(node):
    top, *_ = best_effort(node)
    ref = Ref(top, CPU_QUOTA)
    node.apply({ref: "150000"})
    held = texts(node.machine)
    node.apply({}, kept=[ref])
    node.apply({}, undecided=frozenset({CPU_QUOTA}))
    assert texts(node.machine) == held
    assert len(node.executor.kept) == 1


def test_a_file_that_others_keep_changing_is_left_and_named(node):
    top, *_ = best_effort(node)
    ref, file = Ref(top, CPU_QUOTA), "cpu.max" if node.layout.cpu.version == 2 else "cpu.cfs_quota_us"
    path = root_of(node.machine) / node.layout.cpu.path(top, file)
    theirs = "max 100000\n" if node.layout.cpu.version == 2 else "-1\n"
    outcomes = []
    for _ in range(5):
        applied = node.apply({ref: "150000"})
        outcomes.append(bool(applied.written))
        path.write_text(theirs)
    assert outcomes == [True, True, True, False, False]
    assert "somebody else" in applied.problems[0].message
    assert path.read_text() == theirs
    node.now_s += LEFT_S
    assert node.apply({ref: "150000"}).written == 1, "it is tried again"


def test_a_group_that_is_made_anew_is_no_contest(node):
    top, *_ = best_effort(node)
    for _ in range(5):
        assert node.apply({Ref(top, CPU_QUOTA): "150000"}).problems == ()
        folder = root_of(node.machine) / node.layout.cpu.path(top)
        folder.rename(folder.with_name(f"old{node.now_s}"))
        node.machine.group(top, cpu_ns=0, memory=0)


class Kernel(Executor):
    """Refuses what the kernel refuses: a set outside of its parent's, a quota above it, burst above the quota."""

    def _put(self, path, text):
        folder, _, file = path.rpartition("/")
        root = self.tree.root
        parent, children = (root / folder).parent, [each for each in (root / folder).iterdir() if each.is_dir()]
        if file == "cpuset.cpus" and "cpuset/" in path:
            cpus = parse_cpuset(text)
            if not cpus <= parse_cpuset((parent / file).read_text()):
                raise OSError(errno.EACCES, "outside of the parent")
            if any(not parse_cpuset((child / file).read_text()) <= cpus for child in children):
                raise OSError(errno.EBUSY, "a child is outside")
        if file == "cpu.cfs_quota_us":
            above, own = amount((parent / file).read_text() if (parent / file).exists() else "-1"), amount(text)
            if own > above or any(amount((child / file).read_text()) > own for child in children if amount(text) > 0):
                raise OSError(errno.EINVAL, "does not fit")
        if file in ("cpu.max", "cpu.max.burst") and (root / folder / "cpu.max.burst").exists():
            quota = amount(text if file == "cpu.max" else (root / folder / "cpu.max").read_text())
            burst = int(text if file == "cpu.max.burst" else (root / folder / "cpu.max.burst").read_text())
            if burst > quota:
                raise OSError(errno.EINVAL, "burst above the quota")
        super()._put(path, text)


def amount(text: str) -> float:
    word = text.split()[0]
    return float("inf") if word in ("max", "-1") else int(word)


@pytest.fixture
def old_machine(modern_machine, tmp_path):
    """Version 1, with three levels of best-effort groups."""
    machine = replace(modern_machine, root=tmp_path / "v1", mode="v1")
    machine.kubelet()
    pod = machine.pod("be", "BestEffort", cpu_ns=0, memory=0)
    machine.group(f"{pod}/c1", cpu_ns=0, memory=0)
    return machine


def test_version_1_grows_from_the_top_and_shrinks_from_the_bottom(old_machine, tmp_path):
    node = Node(old_machine, tmp_path / "journal", executor=Kernel)
    before = texts(old_machine)
    groups = best_effort(node)
    # A quota that was never set below can only be set once that above is: kubelet's own order.
    for cpus, quotas in (
        ("0-1", ("300000", "200000", "200000")),
        ("2-4", ("500000", "500000", "400000")),
        ("4", ("90000", "80000", "80000")),
        ("0-7", ("max", "max", "max")),
    ):
        values = {Ref(group, CPUSET): cpus for group in groups}
        values |= {Ref(group, CPU_QUOTA): quota for group, quota in zip(groups, quotas, strict=True)}
        assert node.apply(values).problems == (), cpus
        for group in groups:
            assert cgroups.read_cpuset(node.tree, node.layout, group) == parse_cpuset(cpus)
    assert give_back(node.executor) == ()
    assert texts(old_machine) == before


def test_a_container_that_starts_in_between_is_widened_at_the_end(old_machine, tmp_path):
    node = Node(old_machine, tmp_path / "journal", executor=Kernel)
    top, pod, container = best_effort(node)
    node.apply({Ref(group, CPUSET): "0-1" for group in (top, pod, container)})
    old_machine.group(f"{pod}/late", cpu_ns=0, memory=0)
    late = root_of(old_machine) / "cpuset" / pod / "late/cpuset.cpus"
    late.write_text("0-1\n")
    assert give_back(Node(old_machine, tmp_path / "journal", executor=Kernel).executor) == ()
    assert late.read_text() == "0-7\n"


def test_burst_gives_way_before_the_quota_and_comes_after_it(modern_machine, tmp_path):
    machine = modern_machine
    machine.kubelet()
    group = machine.pod("p", "Burstable", cpu_ns=0, memory=0)
    machine.write(f"sys/fs/cgroup/{group}/cpu.max.burst", "0\n")
    node = Node(machine, tmp_path / "journal", executor=Kernel)
    for quota, burst in (("400000", "400000"), ("100000", "50000"), ("300000", "300000"), ("max", "0")):
        assert node.apply({Ref(group, CPU_QUOTA): quota, Ref(group, CPU_BURST): burst}).problems == ()
    assert give_back(node.executor) == ()
    assert (root_of(machine) / group / "cpu.max").read_text() == "max 100000\n"


def test_a_refused_write_is_named_and_the_others_are_written(node, monkeypatch):
    top, _, container = best_effort(node)
    put = Executor._put

    def refuses(self, path, text):
        if "quota" in path or "cpu.max" in path:
            raise OSError(errno.EROFS, "read-only")
        put(self, path, text)

    monkeypatch.setattr(Executor, "_put", refuses)
    cpus = {Ref(group, CPUSET): "1" for group in best_effort(node)}
    (problem,) = node.apply({Ref(top, CPU_QUOTA): "5000", **cpus}).problems
    assert "EROFS; writing needs root" in problem.message
    assert cgroups.read_cpuset(node.tree, node.layout, container) in ({1}, set(range(8))), (
        "version 2 shows the parent's"
    )


def test_what_the_kernel_lacks_is_said(node):
    top, *_ = best_effort(node)
    applied = node.apply({Ref(top, MEMORY_MIN): "4096", Ref("kubepods/gone", CPU_QUOTA): "5000"})
    assert applied == (0, (), {MEMORY_MIN}), "a group that is gone lacks nothing"


@pytest.mark.parametrize("value", ["-1", "9000000", "x"])
def test_a_value_out_of_range_is_never_written(node, value):
    before = texts(node.machine)
    top, *_ = best_effort(node)
    knobs = by_name([Knob("small", "cpu.cfs_quota_us", "cpu.max", "cpu", low=0, high=100)])
    (problem,) = (
        Node(node.machine, Path("/nonexistent/journal"), knobs=knobs).apply({Ref(top, "small"): value}).problems
    )
    assert "within" in problem.message or "number" in problem.message
    assert texts(node.machine) == before


def test_a_link_is_not_followed(modern_machine, tmp_path):
    modern_machine.kubelet()
    victim = tmp_path / "victim"
    victim.write_text("max 100000")
    top = qos_dir("systemd", "BestEffort")
    knob = root_of(modern_machine) / top / "cpu.max"
    knob.unlink()
    os.symlink(victim, knob)
    (problem,) = Node(modern_machine, tmp_path / "journal").apply({Ref(top, CPU_QUOTA): "5000"}).problems
    assert "ELOOP" in problem.message
    assert victim.read_text() == "max 100000"


LINES = by_name([Knob("lines", "cpu.lines", "cpu.lines", "cpu", "line", default="max")])


def test_single_lines_of_a_file_are_set_and_given_back(modern_machine, tmp_path):
    modern_machine.kubelet()
    top = qos_dir("systemd", "BestEffort")
    modern_machine.write(f"sys/fs/cgroup/{top}/cpu.lines", "8:0 5\n")
    path = root_of(modern_machine) / top / "cpu.lines"

    class Lines(Executor):
        """The kernel changes the line that is named, and keeps the others."""

        def _put(self, path, text):
            file = self.tree.root / path
            key, _, value = text.partition(" ")
            there = dict(line.split(" ", 1) for line in file.read_text().splitlines()) | {key: value}
            file.write_text("".join(f"{key} {value}\n" for key, value in sorted(there.items()) if value != "max"))

    node = Node(modern_machine, tmp_path / "journal", executor=Lines, knobs=LINES)
    node.apply({Ref(top, "lines", "8:0"): "7", Ref(top, "lines", "8:16"): "9"})
    assert path.read_text() == "8:0 7\n8:16 9\n"
    assert node.apply({Ref(top, "lines", "8:0"): "7"}).problems == ()
    assert path.read_text() == "8:0 7\n", "the other line is wanted no more"
    node.apply({})
    assert path.read_text() == "8:0 5\n"


class Dies(BaseException):
    """As if by kill -9."""


class DyingExecutor(Executor):
    """Dies at the write that comes after so many."""

    left: list[int] = []

    def _put(self, path, text):
        self._count()
        super()._put(path, text)

    def _store(self):
        self._count()
        super()._store()

    def _count(self):
        if self.left[0] == 0:
            raise Dies
        self.left[0] -= 1


def rounds(node) -> list[dict[Ref, str]]:
    top, pod, container = best_effort(node)
    return [
        {Ref(group, CPUSET): "0-1" for group in (top, pod, container)} | {Ref(top, CPU_QUOTA): "150000"},
        {Ref(group, CPUSET): "2-5" for group in (top, pod, container)} | {Ref(container, CPU_QUOTA): "100000"},
    ]


@pytest.mark.parametrize(("mode", "driver"), [("v1", "cgroupfs"), ("v2", "systemd")])
def test_killed_between_any_two_writes(busy, tmp_path):
    """Files stay; the next process ends at the same values, or gives the first ones back, byte for byte."""
    first = texts(busy)
    undisturbed = Node(busy, tmp_path / "undisturbed")
    for values in rounds(undisturbed):
        undisturbed.apply(values)
    wanted = texts(busy)
    assert give_back(undisturbed.executor) == ()
    assert texts(busy) == first
    for writes, ends_by_undo in itertools.product(range(200), (False, True)):
        journal = tmp_path / f"journal-{writes}-{ends_by_undo}"
        DyingExecutor.left = [writes]
        died = False
        try:
            node = Node(busy, journal, executor=DyingExecutor)
            for values in rounds(node):
                node.apply(values)
        except Dies:
            died = True
        follower = Node(busy, journal)
        if not ends_by_undo:
            for values in rounds(follower)[-1:]:
                assert follower.apply(values).problems == ()
            assert texts(busy) == wanted, writes
        assert give_back(Node(busy, journal).executor) == ()
        assert texts(busy) == first, writes
        if not died:
            break
    assert 5 < writes < 199


class ForgetsWeights(Executor):
    """As the kernel does: a group that is idle takes no weight, and has the usual one once it is idle no more."""

    def _put(self, path, text):
        group, _, file = path.rpartition("/")
        weight = next(each for each in ("cpu.weight", "cpu.shares") if (self.tree.root / group / each).exists())
        idle = (self.tree.root / group / "cpu.idle").read_text().strip()
        if file == weight and idle == "1":
            raise OSError(errno.EINVAL, "the group is idle")
        super()._put(path, text)
        if file == "cpu.idle" and text != idle:
            usual = "100\n" if weight == "cpu.weight" else "1024\n"
            (self.tree.root / group / weight).write_text("0\n" if text == "1" else usual)


@pytest.mark.parametrize("way", ["undo", "stops", "zero"])
def test_a_group_that_was_idle_has_its_weight_back(busy, tmp_path, way):
    node = Node(busy, tmp_path / "journal", executor=ForgetsWeights)
    top, *_ = best_effort(node)
    folder = root_of(busy) / node.layout.cpu.path(top)
    weight = folder / ("cpu.weight" if node.layout.cpu.version == 2 else "cpu.shares")
    weight.write_text("2\n")
    (folder / "cpu.idle").write_text("0\n")
    before = texts(busy)
    for _ in range(2):
        assert node.apply({Ref(top, CPU_IDLE): "1"}, kept=[Ref(top, CPU_SHARES)]).problems == ()
        assert weight.read_text() == "0\n"
    if way == "undo":
        assert give_back(node.executor) == ()
    else:
        assert node.apply({Ref(top, CPU_IDLE): "0"} if way == "zero" else {}).problems == ()
    assert texts(busy) == before


def test_what_was_kept_and_is_nobodys_any_more_is_given_back_where_only_news_is_told(node):
    """A weight stays as it is while its group is idle; nobody may want one after that."""
    top, *_ = best_effort(node)
    before, ref = texts(node.machine), Ref(top, CPU_QUOTA)
    news = frozenset({ref})
    node.apply({ref: "150000"})
    node.apply({}, kept=[ref], touched=news)
    assert texts(node.machine) != before
    node.apply({}, touched=news)
    assert texts(node.machine) == before
    assert node.executor.kept == ()


def test_a_controller_that_appears_is_written_to_although_nothing_is_news(node):
    top, *_ = best_effort(node)
    ref, whole = Ref(top, CPU_QUOTA), node.layout
    node.layout = whole._replace(cpu=None)
    node.applier.found(node.layout, [ref])
    assert node.apply({ref: "150000"}).written == 0
    node.layout = whole
    node.applier.found(node.layout, [ref])
    assert node.apply({ref: "150000"}, touched=frozenset()).written == 1
