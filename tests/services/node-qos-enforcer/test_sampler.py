"""One look at a machine: every layout of control groups, and everything that can be missing or odd."""

import os
import shutil
import time
from dataclasses import replace

import pytest

from berth.node_qos_enforcer import sampler
from berth.node_qos_enforcer.cgroups import detect_driver, detect_layout
from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.core.laws.cold_memory import HOT_CACHE, WITH_CACHE
from berth.node_qos_enforcer.core.measure import Meter
from berth.node_qos_enforcer.core.strategy import Strategy
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.machine import read_topology
from berth.node_qos_enforcer.sampler import Trees, take_sample

GIB = 1 << 30
UID = "6553a60b-2b97-442a-b6da-a5704d81dd98"


def look(machine):
    return take_sample(machine.trees, monotonic=machine.clock)


def test_everything_is_found_in_every_layout(fake_machine):
    fake_machine.kubelet()
    fake_machine.pod(UID, "Guaranteed", cpu_ns=5_000, memory=1_000)
    fake_machine.pod("be", "BestEffort", cpu_ns=7_000, memory=2_000)
    fake_machine.group(qos_dir(fake_machine.driver, "BestEffort"), cpu_ns=9_000, memory=3_000, quota=250_000)
    sample = look(fake_machine)
    assert sample.problems == ()
    assert sample.driver == fake_machine.driver
    assert sample.cgroup_version == (2 if fake_machine.mode == "v2" else 1)
    assert sample.cpu.value_ns == 10_000_000_000
    assert sample.memory.total_bytes == 16 << 30
    assert set(sample.pressure) == {"cpu", "memory", "io"}
    assert sample.online_cpus == 8
    got = {pod.uid: (pod.kube_qos, pod.group.cpu.value_ns, pod.group.memory_bytes) for pod in sample.pods}
    assert got == {UID: ("Guaranteed", 5_000, 1_000), "be": ("BestEffort", 7_000, 2_000)}
    assert sample.groups["BestEffort"].memory_bytes == 3_000
    assert sample.best_effort.bandwidth == (250_000, 100_000)
    assert sample.best_effort.quota_us == 250_000
    assert sample.best_effort.cpus == sample.best_effort.all_cpus == frozenset(range(8))


def test_layout_is_told_by_the_tree(fake_machine):
    layout = detect_layout(fake_machine.trees.cgroup)
    assert layout.mode == fake_machine.mode
    assert layout.version == (2 if fake_machine.mode == "v2" else 1)
    assert (layout.pressure is None) == (fake_machine.mode == "v1")


def test_controllers_mounted_together_are_found(tmp_path):
    for name in ("cpu,cpuacct", "memory", "unified"):
        (tmp_path / name).mkdir()
    (tmp_path / "unified/cgroup.controllers").write_text("memory io\n")
    layout = detect_layout(DiskTree(tmp_path))
    assert layout.mode == "hybrid"
    assert layout.cpu == layout.cpuacct == ("cpu,cpuacct", 1)
    assert layout.memory == ("memory", 1)
    assert layout.cpuset is None


def test_a_controller_that_lives_in_the_unified_tree_is_read_there(tmp_path):
    (tmp_path / "unified").mkdir()
    (tmp_path / "cpuacct").mkdir()
    (tmp_path / "unified/cgroup.controllers").write_text("memory\n")
    assert detect_layout(DiskTree(tmp_path)).memory == ("unified", 2)


def test_a_laptop_without_kubelet_has_no_pods_and_no_problem(fake_machine):
    sample = look(fake_machine)
    assert (sample.driver, sample.pods, sample.groups, sample.problems) == (None, (), {}, ())


def test_a_machine_without_control_groups(tmp_path, modern_machine):
    shutil.rmtree(tmp_path / "sys/fs/cgroup")
    sample = look(modern_machine)
    assert (sample.cgroup_version, sample.pods, sample.problems) == (0, (), ())
    assert sample.cpu is not None


def test_nothing_at_all_is_a_list_of_problems(tmp_path):
    empty = DiskTree(tmp_path / "nowhere")
    sample = take_sample(Trees(empty, empty, empty), monotonic=lambda: 0.0)
    assert {problem.field for problem in sample.problems} == {"node_usage.cpu", "node_usage.memory", "cpu_total"}


@pytest.mark.parametrize(
    ("path", "text", "field"),
    [
        ("proc/stat", "cpu 1 2", "node_usage.cpu"),
        ("proc/meminfo", "MemTotal: many kB\n", "node_usage.memory"),
        ("proc/pressure/io", "some avg10=x", "io_pressure"),
        ("sys/devices/system/cpu/online", "0-", "cpu_total"),
    ],
)
def test_a_malformed_file_costs_only_its_own_figure(modern_machine, path, text, field):
    modern_machine.write(path, text)
    sample = look(modern_machine)
    assert [problem.field for problem in sample.problems] == [field]
    assert [sample.cpu is None, sample.memory is None].count(True) == (1 if field.startswith("node_usage") else 0)


def test_a_malformed_pod_is_named_and_the_others_are_measured(fake_machine):
    fake_machine.kubelet()
    path = fake_machine.pod("bad", "Burstable", cpu_ns=1, memory=1)
    fake_machine.pod("good", "Burstable", cpu_ns=1_000, memory=1)
    file = "cpu.stat" if fake_machine.mode == "v2" else "cpuacct.usage"
    where = "" if fake_machine.mode == "v2" else "cpuacct/"
    fake_machine.write(f"sys/fs/cgroup/{where}{path}/{file}", "usage_usec -5\n")
    sample = look(fake_machine)
    assert [problem.field for problem in sample.problems] == ["pods[bad].cpu"]
    assert {pod.uid: pod.group.cpu is None for pod in sample.pods} == {"bad": True, "good": False}


def test_a_pod_that_vanishes_between_list_and_read_is_nothing_special(modern_machine):
    modern_machine.kubelet()
    gone = modern_machine.pod("gone", "Burstable", cpu_ns=1, memory=1)
    modern_machine.pod("here", "Burstable", cpu_ns=1, memory=1)

    class Vanishing(DiskTree):
        def incarnations(self, path):
            names = super().incarnations(path)
            if path == qos_dir("systemd", "Burstable"):
                shutil.rmtree(self.root / gone)
            return names

    trees = modern_machine.trees
    sample = take_sample(trees._replace(cgroup=Vanishing(trees.cgroup.root)), monotonic=modern_machine.clock)
    assert [pod.uid for pod in sample.pods] == ["here"]
    assert (sample.vanished, sample.problems) == (1, ())


def test_other_directories_are_no_pods(modern_machine):
    modern_machine.kubelet()
    modern_machine.group("kubepods.slice/kubepods-burstable.slice/init.scope", cpu_ns=1, memory=1)
    modern_machine.group("kubepods.slice/kubepods-podx", cpu_ns=1, memory=1)
    modern_machine.group("kubepods.slice/kubepods-pod.slice", cpu_ns=1, memory=1)
    modern_machine.group("kubepods.slice/kubepods-pod\udcff.slice", cpu_ns=1, memory=1)
    modern_machine.group(f"kubepods.slice/kubepods-pod{'x' * 200}.slice", cpu_ns=1, memory=1)
    assert look(modern_machine).pods == ()


def test_pods_are_bounded(modern_machine, monkeypatch):
    monkeypatch.setattr(sampler, "MAX_PODS", 3)
    modern_machine.kubelet()
    for index in range(5):
        modern_machine.pod(f"p{index}", "Burstable", cpu_ns=1, memory=1)
    sample = look(modern_machine)
    assert len(sample.pods) == 3
    assert [problem.field for problem in sample.problems] == ["pods"]


def test_problems_are_bounded(modern_machine):
    modern_machine.kubelet()
    for index in range(sampler.MAX_PROBLEMS + 10):
        path = modern_machine.pod(f"p{index}", "Burstable", cpu_ns=1, memory=1)
        modern_machine.write(f"sys/fs/cgroup/{path}/cpu.stat", "x" * 5_000)
    assert len(look(modern_machine).problems) == sampler.MAX_PROBLEMS


def test_a_kernel_without_pressure_has_none(modern_machine):
    shutil.rmtree(modern_machine.root / "proc/pressure")
    sample = look(modern_machine)
    assert (sample.pressure, sample.problems) == ({}, ())


def test_pressure_that_is_switched_off_is_no_problem(modern_machine):
    class SwitchedOff(DiskTree):
        def read(self, path):
            if path.startswith("pressure/"):
                raise Unreadable(path, "EOPNOTSUPP" if path.endswith("cpu") else "EACCES")
            return super().read(path)

    trees = modern_machine.trees
    sample = take_sample(trees._replace(proc=SwitchedOff(trees.proc.root)), monotonic=modern_machine.clock)
    assert [problem.field for problem in sample.problems] == ["memory_pressure", "io_pressure"]


def test_reads_are_bounded(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * 101)
    assert DiskTree(tmp_path, max_bytes=101).read("large") == "x" * 101
    with pytest.raises(Unreadable, match="larger than 100 bytes"):
        DiskTree(tmp_path, max_bytes=100).read("large")


def test_a_directory_in_place_of_a_file_is_unreadable(tmp_path):
    (tmp_path / "stat").mkdir()
    with pytest.raises(Unreadable, match="stat: EISDIR"):
        DiskTree(tmp_path).read("stat")


def test_a_pipe_without_a_writer_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert DiskTree(tmp_path).read("pipe") == ""


def test_bytes_that_are_no_text_are_left_to_the_parser(tmp_path):
    (tmp_path / "odd").write_bytes(b"\xff\xfe1")
    assert "1" in DiskTree(tmp_path).read("odd")


def test_topology_is_read_from_sys(modern_machine):
    modern_machine.write("sys/devices/system/node/online", "0-1\n")
    modern_machine.write("sys/devices/system/node/node0/cpulist", "0-3\n")
    modern_machine.write("sys/devices/system/node/node1/cpulist", "4-7\n")
    modern_machine.write("sys/devices/system/cpu/cpu7/topology/physical_package_id", "-1\n")
    rows = read_topology(modern_machine.trees.sys)
    assert [(row.cpu, row.core, row.node) for row in rows] == [(cpu, cpu // 2, cpu // 4) for cpu in range(8)]
    assert {row.socket for row in rows} == {0}


def test_a_kernel_without_numa_has_one_node(modern_machine):
    shutil.rmtree(modern_machine.root / "sys/devices/system/node")
    assert {row.node for row in read_topology(modern_machine.trees.sys)} == {0}


def test_pressure_of_the_classes_is_read_where_the_kernel_has_it(fake_machine):
    fake_machine.kubelet()
    fake_machine.group(qos_dir(fake_machine.driver, "BestEffort"), cpu_ns=0, memory=0, psi=61.5)
    sample = look(fake_machine)
    assert sample.problems == ()
    got = {
        qos: {resource: stalls.some.avg10 for resource, stalls in group.pressure.items()}
        for qos, group in sample.groups.items()
    }
    if fake_machine.mode == "v1":
        assert got == {"Guaranteed": {}, "Burstable": {}, "BestEffort": {}}
    else:
        calm = dict.fromkeys(("cpu", "memory", "io"), 2.5)
        assert got == {"Guaranteed": calm, "Burstable": calm, "BestEffort": dict.fromkeys(calm, 61.5)}


def test_a_unified_tree_without_the_pods_groups_has_no_pressure_of_them(modern_machine, tmp_path):
    machine = replace(modern_machine, root=tmp_path / "hybrid", mode="hybrid", driver="cgroupfs")
    machine.kubelet()
    shutil.rmtree(machine.root / "sys/fs/cgroup/unified/kubepods")
    sample = look(machine)
    assert (sample.problems, sample.groups["BestEffort"].pressure) == ((), {})


def test_pressure_that_does_not_parse_is_named(modern_machine):
    modern_machine.kubelet()
    modern_machine.write(f"sys/fs/cgroup/{qos_dir('systemd', 'BestEffort')}/io.pressure", "some avg10=many\n")
    sample = look(modern_machine)
    assert [problem.field for problem in sample.problems] == ["pressure_by_group[besteffort].io"]
    assert sample.groups["BestEffort"].pressure.keys() == {"cpu", "memory"}


@pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="not Linux")
def test_this_very_machine():
    trees = Trees(DiskTree("/proc"), DiskTree("/sys"), DiskTree("/sys/fs/cgroup"))
    before = time.monotonic()
    sample = take_sample(trees, monotonic=time.monotonic, clock_ticks_per_s=os.sysconf("SC_CLK_TCK"))
    assert sample.problems == ()
    assert before <= sample.cpu.at <= time.monotonic()
    assert sample.cpu.value_ns > 0
    assert 0 < sample.memory.available_bytes <= sample.memory.total_bytes
    assert sample.online_cpus == os.sysconf("SC_NPROCESSORS_ONLN")
    rows = read_topology(trees.sys)
    assert len({row.cpu for row in rows}) == len(rows) == sample.online_cpus
    layout = detect_layout(trees.cgroup)
    assert sample.driver == detect_driver(trees.cgroup, layout)
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        assert layout.mode == "v2"
    elif os.path.exists("/sys/fs/cgroup/unified/cgroup.controllers"):
        assert layout.mode == "hybrid"


def idle_pages(cold, *, scans=3):
    """What kidled tells: `cold` bytes of clean, inactive, evictable pages of files that are in the last bucket."""
    head = ["# version: 1.0", f"# page_scans: {scans}", "# slab_scans: 0", "# scan_period_in_seconds: 5"]
    head += ["# use_hierarchy: 1", "# buckets: 1,2,5,15,30,60,120,240"]
    kinds = ("csei", "dsei", "cfei", "dfei", "csui", "dsui", "cfui", "dfui")
    kinds += ("csea", "dsea", "cfea", "dfea", "csua", "dsua", "cfua", "dfua", "slab")
    rows = [f"{kind} {'7 ' * 5}0 0 {cold if kind == 'cfei' else 0}" for kind in kinds]
    return "\n".join([*head, *["#"] * 8, *rows, ""])


@pytest.mark.parametrize("scanned", ["everywhere", "node", "nowhere", "not yet", "torn"])
def test_memory_that_nobody_touches_is_not_in_use(fake_machine, scanned):
    fake_machine.kubelet()
    path = fake_machine.pod("p", "Burstable", cpu_ns=0, memory=1_000)
    where = "sys/fs/cgroup/" + ("" if fake_machine.mode == "v2" else "memory/")
    if scanned != "nowhere":
        text = "torn" if scanned == "torn" else idle_pages(5_000, scans=0 if scanned == "not yet" else 3)
        fake_machine.write(f"{where}memory.idle_page_stats", text)
    if scanned == "everywhere":
        fake_machine.write(f"{where}{path}/memory.idle_page_stats", idle_pages(40))
    sample = take_sample(fake_machine.trees, monotonic=fake_machine.clock, memory_policy=HOT_CACHE)
    assert [each.field for each in sample.problems] == (["memory_policy"] if scanned == "torn" else [])
    is_told = scanned in ("everywhere", "node")
    assert (sample.memory_policy, sample.cold_bytes) == ((HOT_CACHE, 5_000) if is_told else ("", 0))
    # 33 bytes of its page cache are inactive, 44 active.
    assert sample.pods[0].group.memory_bytes == (1_037 if scanned == "everywhere" else 1_000)
    used = Meter("n", max_gap_s=9.0).measure(sample, now=0.0, strategy=Strategy()).metrics
    assert used.memory_policy == sample.memory_policy
    assert used.node_usage.memory_bytes == (10 * GIB - 5_000 if is_told else 4 * GIB)


def test_memory_with_its_page_cache(fake_machine):
    fake_machine.kubelet()
    path = fake_machine.pod("p", "Burstable", cpu_ns=0, memory=1_000)
    where, file = ("", "memory.current") if fake_machine.mode == "v2" else ("memory/", "memory.usage_in_bytes")
    fake_machine.write(f"sys/fs/cgroup/{where}{path}/{file}", "1234\n")
    sample = take_sample(fake_machine.trees, monotonic=fake_machine.clock, memory_policy=WITH_CACHE)
    assert (sample.pods[0].group.memory_bytes, sample.memory_policy) == (1_234, WITH_CACHE)
