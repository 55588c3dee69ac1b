"""What is counted and read of single groups: the call, byte for byte, turns of containers, what a machine lacks."""

import errno
import struct

import pytest
from prometheus_client import CollectorRegistry

from berth.node_qos_enforcer.core.laws.counters import Counts, attribute, read_group, total
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.strategies.interference import INTERFERENCE
from berth.node_qos_enforcer.core.strategies.knobs import CYCLES, STALLS
from berth.node_qos_enforcer.core.strategies.seam import Container, Pod, Ref, Snapshot
from berth.node_qos_enforcer.doers import interference
from berth.node_qos_enforcer.doers.interference import (
    AGAIN_ROUNDS,
    EVERY_ROUNDS,
    PRESSURE_ROUNDS,
    WINDOW_ROUNDS,
    CycleDoer,
    StallDoer,
)
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.interference_figures import InterferenceFigures

WHOSE = "abc/main/u-1/web/work"


def group_of(cycles, instructions, *, enabled=100, running=100):
    return struct.pack("=7Q", 2, enabled, running, cycles, 7, instructions, 8)


def test_the_description_of_a_counter_is_that_of_the_first_version():
    words = struct.unpack("=IIQQQQQIIQ", attribute(1))
    assert words == (0, 64, 1, 0, 0, 15, 3, 0, 0, 0)


def test_counters_that_took_turns_are_scaled():
    assert read_group(group_of(30, 10, enabled=90, running=45)) == Counts(60, 20)
    assert read_group(group_of(30, 10, running=0)) is None
    for torn in (b"", group_of(1, 1)[:-1], struct.pack("=7Q", 3, 1, 1, 1, 1, 1, 1)):
        with pytest.raises(Malformed):
            read_group(torn)
    assert total([Counts(1, 2), None, Counts(3, 4)]) == Counts(4, 6)
    assert total([Counts(1, 0), None]) is None, "nothing to divide by"


class Kernel:
    """Counters that say what they were told to count."""

    def __init__(self):
        self.error = None
        self.next = 100
        self.folders = {}
        self.open_ = {}
        self.enabled = []

    def folder(self, tree, path):
        if "gone" in path:
            return None
        self.next += 1
        self.open_[self.next] = path
        return self.next

    def open(self, attribute, folder, cpu, leader):
        if self.error is not None:
            raise OSError(self.error, "no")
        assert folder in self.open_
        assert leader == -1 or leader in self.open_
        self.next += 1
        self.open_[self.next] = (struct.unpack_from("=Q", attribute, 8)[0], self.open_[folder], cpu, leader)
        return self.next

    def enable(self, leader):
        self.enabled.append(self.open_[leader])

    def read(self, leader):
        return group_of(3_000, 1_500)

    def close(self, descriptor):
        del self.open_[descriptor]


@pytest.fixture
def figures():
    found = InterferenceFigures()
    found.node = "n"
    return found


@pytest.fixture
def kernel():
    return Kernel()


@pytest.fixture
def doer(kernel, tmp_path, figures):
    (tmp_path / "cgroup.controllers").write_text("cpu")
    return CycleDoer(kernel, DiskTree(tmp_path), lambda: {0, 1}, figures)


def wanted(*groups, knob=CYCLES):
    return {Ref(each, knob): WHOSE for each in groups}


def test_a_container_is_counted_on_each_cpu_for_a_while(doer, kernel, figures):
    for _ in range(WINDOW_ROUNDS):
        assert doer.bring(wanted("g")).problems == ()
        assert [(event, path, cpu) for event, path, cpu, _ in kernel.enabled] == [(0, "g", 0), (0, "g", 1)]
        assert len(kernel.open_) == 5
        assert figures.counts == {}
    doer.bring(wanted("g"))
    assert figures.counts == {"g": (WHOSE, Counts(6_000, 3_000))}
    assert kernel.open_ == {}
    for _ in range(EVERY_ROUNDS - WINDOW_ROUNDS - 1):
        doer.bring(wanted("g"))
    assert len(kernel.enabled) == 2
    doer.bring(wanted("g"))
    assert len(kernel.enabled) == 4
    doer.bring({})
    assert (kernel.open_, figures.counts) == ({}, {}), "its pod is gone"


def test_containers_take_turns(doer, kernel, figures, monkeypatch):
    monkeypatch.setattr(interference, "COUNTERS_MAX", 8)
    groups = [f"g{number}" for number in range(5)]
    for _ in range(3 * WINDOW_ROUNDS + 3):
        doer.bring(wanted(*groups))
        assert len(kernel.open_) <= 10
    assert set(figures.counts) == set(groups)


def test_a_group_that_is_gone_is_nothing_special(doer, kernel, figures):
    for _ in range(WINDOW_ROUNDS + 1):
        assert doer.bring(wanted("gone", "g")) == interference.Done()
    assert set(figures.counts) == {"g"}


@pytest.mark.parametrize(
    ("error", "problems", "lacking"),
    [
        (errno.ENOENT, [], {CYCLES}),
        (errno.ENOSYS, [], {CYCLES}),
        (errno.EACCES, [CYCLES], set()),
        (errno.EPERM, [CYCLES], set()),
    ],
)
def test_what_cannot_be_had_is_said_and_asked_for_again_later(doer, kernel, error, problems, lacking):
    kernel.error = error
    for _ in range(AGAIN_ROUNDS):
        done = doer.bring(wanted("g"))
        assert [each.field for each in done.problems] == problems
        assert done.lacking == lacking
        kernel.error = None
    assert kernel.enabled == []
    assert kernel.open_ == {}
    for _ in range(2):
        done = doer.bring(wanted("g"))
    assert done == interference.Done()
    assert len(kernel.enabled) == 2


def test_too_few_descriptors_count_those_that_they_are_enough_for(doer, kernel):
    real = kernel.open

    def full(attribute, folder, cpu, leader):
        if len(kernel.open_) > 5:
            raise OSError(errno.EMFILE, "full")
        return real(attribute, folder, cpu, leader)

    kernel.open = full
    assert doer.bring(wanted("a", "b")) == interference.Done()
    assert [path for _, path, _, _ in kernel.enabled] == ["a", "a"]
    assert len(kernel.open_) == 5


def test_pressure_of_groups(fake_machine, figures):
    fake_machine.kubelet()
    path = fake_machine.pod("p", "Burstable", cpu_ns=0, memory=0)
    doer = StallDoer(fake_machine.trees.cgroup, figures)
    for _ in range(PRESSURE_ROUNDS):
        done = doer.bring(wanted(path, "no", knob=STALLS))
    if fake_machine.mode == "v1":
        assert done.lacking == {STALLS}
        return
    assert set(figures.stalls) == {path}
    registry = CollectorRegistry()
    registry.register(figures)
    pod = {"pod_uid": "u-1", "pod_name": "web", "pod_namespace": "work", "node": "n"}
    stall = {"psi_resource_type": "mem", "psi_degree": "full", "psi_precision": "avg60", "cpu_full_supported": "true"}
    whose = {"container_id": "abc", "container_name": "main", **pod}
    assert registry.get_sample_value("koordlet_container_psi", {**whose, **stall}) == 0.1
    doer.bring(wanted("no", knob=STALLS))
    assert figures.stalls == {}


def test_figures_of_a_container(figures):
    registry = CollectorRegistry()
    registry.register(figures)
    figures.counts["g"] = (WHOSE, Counts(3_000, 1_500))
    whose = {"container_id": "abc", "container_name": "main", "pod_uid": "u-1", "pod_name": "web"}
    whose |= {"pod_namespace": "work", "node": "n"}
    for field, value in (("cycles", 3_000), ("instructions", 1_500)):
        assert registry.get_sample_value("koordlet_container_cpi", {**whose, "cpi_field": field}) == value


def test_who_is_looked_at():
    containers = (Container("main", id="abc", group="g/c"), Container("init", id="d", group="g/d", is_running=False))
    pods = (Pod("u-1", "work", "web", group="g", containers=containers), Pod("u-2", group="h"))
    found = INTERFERENCE.decide(Snapshot(None, pods), {}, None).wanted
    assert [(each.group, each.knob, each.value) for each in found] == [
        ("g", STALLS, "//u-1/web/work"),
        ("g/c", CYCLES, WHOSE),
        ("g/c", STALLS, WHOSE),
    ]
